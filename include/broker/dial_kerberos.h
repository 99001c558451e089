/*
 * Logs in at servers that ask for GSSAPI (PostgreSQL "Start-up"), with a ticket of the
 * pooler's.
 */
#ifndef BROKER_DIAL_KERBEROS_H
#define BROKER_DIAL_KERBEROS_H

#include <stdbool.h>

#include "session/conn.h"
#include "session/server.h"

/* The server has sent AuthenticationGSS. */
enum step dial_kerberos_begin(struct server *server);
/* The server has sent AuthenticationGSSContinue. */
enum step dial_kerberos_continue(
    struct server *server, const uint8_t *data, size_t len);
/* Is a step under way?  What the server sends meanwhile has to wait. */
bool dial_kerberos_is_at_work(const struct server *server);
/* The connection has ended meanwhile, or before the message that waits: that is read
 * first.  If it does not end the attempt, the end does. */
void dial_kerberos_note_end(struct server *server);
/* The time for the login is over while a KDC is asked: the attempt has failed, and it
 * is not the host's fault.  False: nothing is asked. */
bool dial_kerberos_expired(struct server *server);
/* The server has answered with this error.  True: the attempt is over, and another one
 * follows, with a new ticket. */
bool dial_kerberos_refused(struct server *server, const char *sqlstate);

#endif
