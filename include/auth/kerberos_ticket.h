/*
 * The credentials of a ticket (auth/kerberos.h), for exchanges with its service.
 * Private to auth/kerberos*.
 */
#ifndef AUTH_KERBEROS_TICKET_H
#define AUTH_KERBEROS_TICKET_H

#include "auth/gssapi.h"
#include "auth/kerberos.h"

/* One set of credentials, which exchanges may still use when the ticket has another. */
struct kerberos_grant;

/* Returns a reference to what is valid now; asks the KDC, or waits for the thread that
 * does, if there is nothing.  NULL and err: it has failed. */
struct kerberos_grant *kerberos_ticket_take(struct kerberos_ticket *t, struct err *err);
/* Gets new credentials in place of those that there are. */
int kerberos_ticket_renew(struct kerberos_ticket *t, struct err *err);
/* The service refuses these.  True: the ticket had had them for a while, and forgets
 * them. */
bool kerberos_ticket_refused(
    struct kerberos_ticket *t, const struct kerberos_grant *grant);

const struct gssapi_credentials *kerberos_grant_credentials(
    const struct kerberos_grant *grant);
/* NULL is allowed. */
void kerberos_grant_unref(struct kerberos_grant **grant);

#endif
