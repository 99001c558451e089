/*
 * defer_begin: a transaction block that begins at the pooler.
 *
 * BLOCK_BEGUN: the client, which has no server, was answered to its BEGIN.  The BEGIN
 * is sent in front of the next message that needs a server, without a Sync: if the
 * server refuses it, it skips that message, which must not run outside of the block.
 * Until the BEGIN is answered at most one ReadyForQuery is owed, so that nothing behind
 * that runs either.
 *
 * BLOCK_FAILED: that first statement has failed, and so has the block for the client,
 * but no server knows it.  Until the client ends it, it gets PostgreSQL's error.  What
 * PostgreSQL may take in such a block, and the pooler does not answer itself, goes to a
 * server, on which a block is begun and made to fail first.
 */
#ifndef RELAY_BEGIN_H
#define RELAY_BEGIN_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"

/* A message of a client without a server.  If it begins a block, or ends one that no
 * server knows, and nothing else has arrived up to its ReadyForQuery and behind it:
 * takes and answers the whole command, and returns true. */
bool begin_answer(struct client *client, const struct message *m);

/* With BLOCK_FAILED: is the message of a client without a server certainly one that
 * PostgreSQL refuses in such a block?  Then its effects are noted, and the caller sends
 * the error. */
bool begin_refuses(struct client *client, const struct message *m);

/* With BLOCK_FAILED: makes a block fail on this server.  The client's message has to
 * wait until that is answered. */
void begin_fail(struct server *server);
/* The message is about to be forwarded: sends the BEGIN before it, if one was deferred.
 * -1: no memory. */
int begin_send(struct client *client, struct server *server, const struct message *m);
/* Must the client's next message wait for the answer to the BEGIN? */
static inline bool begin_holds(const struct server *server)
{
	return server->link.begin_type && server->pipeline.syncs > 0;
}
/* Is nothing owed but, at most, the answer to a BEGIN? */
static inline bool begin_is_all(const struct server *server)
{
	const struct pipeline *owed = &server->pipeline;

	return !owed->count || (server->link.begin_type &&
				   pipeline_at(owed, owed->count - 1)->to == OWED_SELF);
}
/* Is it, among the answers to a BEGIN, an asynchronous message for the client? */
static inline bool begin_lets_pass(const struct server *server, const struct message *m)
{
	return server->link.begin_type &&
	       (m->type == 'N' || m->type == 'S' || m->type == 'A');
}
/* Notes an answer, which was passed on or is for the pooler.  True: the client was sent
 * another ReadyForQuery in its place, as its block has failed. */
bool begin_answered(
    struct server *server, struct client *client, const struct message *m);
/* Something was passed on: ends a refused BEGIN as soon as the client's message is
 * complete. */
void begin_go_on(struct server *server, struct client *client);
/* Sends the ReadyForQuery of a client without a server. */
void begin_put_ready(struct client *client);

#endif
