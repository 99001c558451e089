/*
 * Parameters between a client and the server it is linked to.  A value that the client
 * asked for at its login or has changed itself is what it gets on every server.  For
 * all other parameters the server's own value counts, which the administrator may
 * switch at any time.
 */
#ifndef RELAY_PARAMS_H
#define RELAY_PARAMS_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"

/* Bring the server to the client's values.  True when SETs were sent: the client must
 * wait until params_applied was called for their ReadyForQuery. */
bool params_apply(struct server *server, struct client *client);
/* The same between two requests of a client that keeps its server, also in a
 * transaction: the client's unnamed statement is left alone. */
bool params_apply_again(struct server *server, struct client *client);
/* The pooler's SETs were answered. -1: one failed, and the server is being closed. */
int params_applied(struct server *server, struct client *client);
/* An ErrorResponse to one of these SETs. */
void params_failed(struct server *server, const struct message *m);
/* A ParameterStatus for server and client. -1: the server is being closed. */
int params_report(
    struct server *server, struct client *client, const struct message *m);
/* A CommandComplete: may the command have changed parameters? */
void params_note_tag(struct server *server, const struct message *m);
/* A text of these effects went to the server, or a Bind of one: what it brings back to
 * its default counts once it was completed. */
void params_expect(struct server *server, const struct sql_effects *effects);
/* Is this the completion of a RESET, DISCARD ALL or SET .. TO DEFAULT?  They bring back
 * what the client asked for at its login, as on a direct connection, and not the
 * server's defaults. */
bool params_is_reset(const struct server *server, const struct message *m);
void params_note_reset(struct server *server, const struct message *m);
/* Any message behind that, up to ReadyForQuery: an error or ROLLBACK undoes it. */
void params_note_outcome(struct server *server, const struct message *m);
/* ReadyForQuery is about to be forwarded: after a reset the client is told what it has
 * again.  Servers follow when it is linked next, or by params_apply_again. */
void params_settle(struct server *server, struct client *client);

#endif
