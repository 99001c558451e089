/*
 * Whose a server's notifications are.  They arrive over another connection than the
 * server's own answers, the one that listens, a moment after the transaction that has
 * sent them.  So before a server goes from a client that may have sent some to another
 * client, all connections that listen in this database have to answer: what they send
 * before that answer was the first client's, and what they send behind it is the
 * second's.  PostgreSQL has told such a connection of a notification before the sender
 * is ready for its next query.
 *
 * Whether a transaction may have sent some is known from its tags, since any change of
 * a table may call a trigger, and from the functions in its texts.
 */
#ifndef RELAY_LISTEN_FENCE_H
#define RELAY_LISTEN_FENCE_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"

/* The link begins.  True: the client must wait, as for params_apply, until
 * fence.missing is 0 and another ReadyForQuery has come. */
bool listen_fence_link(struct server *server, const struct client *client);
/* The linked client begins a query: if it listens, what others have sent before will
 * come before its ReadyForQuery, as it does from PostgreSQL. */
void listen_fence_query(struct server *server, const struct client *client);
/* Everything is answered, outside of a transaction.  True: ReadyForQuery waits, as
 * above, because the client listens, and what was sent before or by it has not come. */
bool listen_fence_holds(struct server *server, const struct client *client);
/* The link goes on, which was begun in another process. */
void listen_fence_restore(struct server *server, const struct client *client);
/* The link ends. */
void listen_fence_unlink(struct server *server);

/* Must tags be seen? */
static inline bool listen_fence_wants_tag(const struct server *server)
{
	return server->link.params.has_hubs && !server->may_notify;
}
void listen_fence_note_tag(struct server *server, const struct message *m);

#endif
