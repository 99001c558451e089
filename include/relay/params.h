/*
 * Parameters between a client and the server that it is linked to.  A value that the
 * client asked for at its login, or has set itself, is in force for it on every server.
 * For all other parameters the server's own value is in force, which the administrator
 * may change at any time.
 */
#ifndef RELAY_PARAMS_H
#define RELAY_PARAMS_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"

/* Sets the client's values on the server.  True if SETs were sent: the client must wait
 * until params_applied is called for their ReadyForQuery. */
bool params_apply(struct server *server, struct client *client);
/* Sets them between two requests of a client that keeps its server, also in a
 * transaction: the client's unnamed statement is left alone. */
bool params_apply_again(struct server *server, struct client *client);
/* Asks the server which of the parameters that the client's commands may have reset are
 * not set any more.  A value that equals the server's own one may be that of a SET or
 * of a RESET, and what has taken effect is not known from texts and tags: an error or
 * ROLLBACK undoes it.  True: it is asked, and params_sourced follows. */
bool params_ask(struct server *server, struct client *client);
/* A row of the answer. */
void params_note_source(struct server *server, const struct message *m);
/* The answer is complete: what the client has reset is what it asked for at its login.
 */
void params_sourced(struct server *server, struct client *client);
/* The pooler's SETs were answered.  -1: one has failed, and the server is being closed.
 * 1: it has failed for no fault of the client, which must get another server. */
int params_applied(struct server *server, struct client *client);
/* An ErrorResponse to one of these SETs. */
void params_failed(struct server *server, const struct message *m);
/* Notes a ParameterStatus for server and client.  -1: the server is being closed. */
int params_report(
    struct server *server, struct client *client, const struct message *m);
/* Notes from a CommandComplete whether the command may have changed parameters. */
void params_note_tag(struct server *server, const struct message *m);
/* A text with these effects, or a Bind of it, was sent to the server: notes which
 * parameters it resets once it completes. */
void params_expect(struct server *server, const struct sql_effects *effects);
/* As params_expect for a Bind of that text.  What the unnamed portal resets counts when
 * it is executed. */
void params_bound(
    struct server *server, const struct message *m, const struct sql_effects *effects);
/* As params_expect for an unnamed Parse, and for what follows it, if statements are not
 * tracked. */
void params_parsed(struct server *server, const struct sql_effects *effects);
void params_bound_parsed(struct server *server, const struct message *m);
/* The client sends a Sync: what was not executed is followed no longer. */
void params_synced(struct server *server);
/* An Execute was sent.  If it is that of a RESET, SET ..  TO DEFAULT or function that
 * may reset something, sends behind it the SETs of what the client asked for at its
 * login, in the same transaction, so that what follows in the same segment has these
 * values. -1: no memory. */
int params_put_back(
    struct server *server, struct client *client, const struct message *m);
/* Is this the completion of a RESET, DISCARD ALL or SET .. TO DEFAULT?  As on a direct
 * connection they restore what the client asked for at its login, not the server's
 * defaults. */
bool params_is_reset(const struct server *server, const struct message *m);
void params_note_reset(struct server *server, const struct message *m);
/* Call it for each message after that, up to ReadyForQuery: an error or ROLLBACK undoes
 * the reset. */
void params_note_outcome(struct server *server, const struct message *m);
/* ReadyForQuery is about to be forwarded: after a reset within a transaction, reports
 * the restored values to the client, which params_apply_again sets on the server.
 * Outside of transactions params_ask follows. */
void params_settle(struct server *server, struct client *client);

#endif
