/*
 * Prepared statements of clients that get another server for each transaction
 * (transaction and statement mode): names per client, texts shared by all, a bounded
 * set on each server.  The relay calls it for each Parse, Bind, Describe, Close and
 * Query before it is sent, and for each answer.  Clients get the answers that they
 * would get on a direct connection.
 */
#ifndef RELAY_STATEMENTS_H
#define RELAY_STATEMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "session/client.h"
#include "session/server.h"

struct text_facts;

/* Must statements be tracked for this client? */
bool statements_are_tracked(const struct client *client);
/* A client was linked to the server, and nothing is in flight. */
void statements_link(struct server *server);
/* The link ends. */
void statements_unlink(struct server *server);

enum statement_fate {
	STATEMENT_FORWARD,    /* send it as it is and enter it in the ledger */
	STATEMENT_RENAMED,    /* its first part was sent with another name, and it is in
				 the ledger: send the bytes from *rest on */
	STATEMENT_DONE,       /* everything was sent and entered in the ledger */
	STATEMENT_MORE,       /* show it again when it is whole */
	STATEMENT_WAIT,       /* show it again when no ReadyForQuery is owed */
	STATEMENT_UNREADABLE, /* the name cannot be read */
	STATEMENT_BROKEN,     /* client and server are being closed */
};
/* Call it for a message of type P, B, D, C or Q, or E with portals of commands, before
 * it goes to the server.  facts: those of the text of P and Q, otherwise NULL. */
enum statement_fate statements_rewrite(struct client *client, struct server *server,
    const struct message *m, const struct text_facts *facts, size_t *rest);
/* A rewritten Query was sent, which ends the unnamed statement as every Query does. */
void statements_queried(struct client *client, struct server *server);

/* A Close of a client without a server.  STATEMENT_DONE: it was answered;
 * STATEMENT_FORWARD: a server has to answer it; or STATEMENT_MORE. */
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
/* An ErrorResponse that would be forwarded and has completed `done`: if it says that
 * the server has lost a statement, or cannot run it any more, the statement is parsed
 * again before its next use.  True: the client's messages since its last Sync can be
 * sent again (replay_detach) after the next ReadyForQuery, and the client gets neither
 * the error nor that ReadyForQuery. */
bool statements_may_try_again(struct client *client, struct server *server,
    const struct message *m, const struct pipeline_entry *done);
/* Sends the client the made-up answers that are next in the ledger. */
void statements_make_up(struct client *client, struct server *server);

#endif
