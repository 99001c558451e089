/*
 * RESET, SET .. TO DEFAULT, DISCARD ALL and functions that reset parameters.  As on a
 * direct connection they restore what the client asked for at its login, not the
 * server's defaults.
 */
#ifndef RELAY_RESETS_H
#define RELAY_RESETS_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"

/* Keeps, before the first change, the values that the client asked for and got at its
 * login. */
void resets_keep_asked(struct client *client);
/* A text with these effects, or a Bind of it, was sent to the server: notes which
 * parameters it resets once it completes. */
void resets_expect(struct server *server, const struct sql_effects *effects);
/* As resets_expect for a Bind of that text.  What the unnamed portal resets counts when
 * it is executed. */
void resets_bound(
    struct server *server, const struct message *m, const struct sql_effects *effects);
/* As resets_expect for an unnamed Parse, and for what follows it, if statements are not
 * tracked. */
void resets_parsed(struct server *server, const struct sql_effects *effects);
void resets_bound_parsed(struct server *server, const struct message *m);
/* The client sends a Sync: what was not executed is followed no longer. */
void resets_synced(struct server *server);
/* An Execute was sent.  If it is that of a RESET, SET ..  TO DEFAULT or function that
 * may reset something, sends behind it the SETs of what the client asked for at its
 * login, in the same transaction, so that what follows in the same segment has these
 * values. -1: no memory. */
int resets_put_back(
    struct server *server, struct client *client, const struct message *m);
/* Is this the completion of a RESET, DISCARD ALL or SET .. TO DEFAULT?  As on a direct
 * connection they restore what the client asked for at its login, not the server's
 * defaults. */
bool resets_is_reset(const struct server *server, const struct message *m);
void resets_note_reset(struct server *server, const struct message *m);
/* Call it for each message after that, up to ReadyForQuery: an error or ROLLBACK undoes
 * the reset. */
void resets_note_outcome(struct server *server, const struct message *m);
/* ReadyForQuery is about to be forwarded: after a reset within a transaction, reports
 * the restored values to the client, which params_apply_again sets on the server.
 * Outside of transactions resets_ask follows. */
void resets_settle(struct server *server, struct client *client);
/* Asks the server which of the parameters that the client's commands may have reset are
 * not set any more.  A value that equals the server's own one may be that of a SET or
 * of a RESET, and what has taken effect is not known from texts and tags: an error or
 * ROLLBACK undoes it.  True: it is asked, and resets_sourced follows. */
bool resets_ask(struct server *server, struct client *client);
/* A row of the answer; an error instead of it. */
void resets_note_source(struct server *server, const struct message *m);
void resets_note_error(struct server *server, const struct message *m);
/* The answer is complete: what the client has reset is what it asked for at its login.
 * 1: a cancel request for the client's command came late and met the question, which is
 * asked again.  -1: the server did not answer it, and is being closed, as nobody knows
 * which values the client has. */
int resets_sourced(struct server *server, struct client *client);

#endif
