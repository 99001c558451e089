/*
 * Kerberos tickets for servers: one for each keytab, principal and service over all
 * sites, which those who log in use, and which are renewed on a helper thread before
 * they end.
 */
#ifndef SESSION_TICKETS_H
#define SESSION_TICKETS_H

#include "auth/kerberos.h"
#include "session/site.h"

/* The tickets of all sites. */
struct ticket_table;

struct ticket_table *ticket_table_new(void);
void ticket_table_free(struct ticket_table **table);

/* Makes site->tickets, which uses the table that all sites share. */
void tickets_init(struct site *site);
/* Call it after the helper threads have ended. */
void tickets_done(struct site *site);

/* Returns a reference.  See kerberos_ticket_new. */
struct kerberos_ticket *tickets_get(
    struct site *site, const char *keyfile, const char *principal, const char *service);
/* A login has used it: this site sees to it that it is renewed in time. */
void tickets_note_use(struct site *site, struct kerberos_ticket *t);
/* New ones are got for later logins, at all sites. */
void tickets_forget_all(struct site *site);

#endif
