/*
 * Prepared statements of clients that get another server for each transaction
 * (transaction and statement mode): names per client, texts shared by all, a bounded
 * set on each server.  The relay shows it each Parse, Bind, Describe, Close and Query
 * before it is sent, and each answer.  Clients get the answers that they would get on a
 * direct connection.
 */
#ifndef RELAY_STATEMENTS_H
#define RELAY_STATEMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "session/client.h"
#include "session/server.h"

struct text_facts;

/* Must statements be tracked for this client on this server? */
bool statements_are_tracked(const struct client *client, const struct server *server);
/* The two are linked: nothing is in flight. */
void statements_link(struct server *server);
/* The link ends. */
void statements_unlink(struct server *server);

enum statement_fate {
	STATEMENT_FORWARD, /* send it as it is and enter it in the ledger */
	STATEMENT_RENAMED, /* its beginning was sent and it was entered: send from rest
			      on */
	STATEMENT_DONE,    /* all that was to be sent was sent and entered */
	STATEMENT_MORE,    /* show it again when it is whole */
	STATEMENT_WAIT,    /* show it again when no ReadyForQuery is owed */
	STATEMENT_UNREADABLE, /* the name cannot be told */
	STATEMENT_BROKEN,     /* client and server are being closed */
};
/* A message of type P B D C Q, or E with portals of commands, is about to go to the
 * server; facts: of the text of P and Q, otherwise NULL. */
enum statement_fate statements_rewrite(struct client *client, struct server *server,
    const struct message *m, const struct text_facts *facts, size_t *rest);
/* A Query that was sent in other words ends the unnamed statement as well. */
void statements_queried(struct client *client, struct server *server);

/* A Close of a client that has no server, and needs none for it: DONE when it was
 * answered, FORWARD when PostgreSQL has to see it, or MORE. */
enum statement_fate statements_close_at_rest(
    struct client *client, const struct message *m);

/* Must this message of the server be shown to statements_answered whole? */
bool statements_want_whole(const struct server *server, const struct message *m);
/* A message of the server, which the ledger has accepted, completed `done` (type 0:
 * nothing).  True when the client was sent something in its place. */
bool statements_answered(struct client *client, struct server *server,
    const struct message *m, const struct pipeline_entry *done);
/* Is an ErrorResponse to a message of the pooler the answer to the client's message
 * that needed it? */
bool statements_is_for_client(const struct server *server, const struct message *m,
    const struct pipeline_entry *done);
/* An ErrorResponse that is to be forwarded and completed `done`: did the server lose a
 * statement of ours, or can it not run it any more?  It is parsed again before its next
 * use then.  True: what the client sent since its last Sync can be sent again
 * (segment_detach) after the next ReadyForQuery, and the client sees neither. */
bool statements_may_try_again(struct client *client, struct server *server,
    const struct message *m, const struct pipeline_entry *done);
/* Send the client the made-up answers that are due at the head of the ledger. */
void statements_make_up(struct client *client, struct server *server);

#endif
