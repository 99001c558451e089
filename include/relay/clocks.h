/*
 * The timeouts of clients after their login and of the servers linked to them
 * (protocol.md 15).
 */
#ifndef RELAY_CLOCKS_H
#define RELAY_CLOCKS_H

#include "session/client.h"
#include "session/server.h"

/* Sets the deadline of a client that neither has nor wants a server:
 * client_idle_timeout. */
void clocks_arm_rest(struct client *client);
/* Sets the deadline of a client that waits for a server: query_wait_timeout,
 * query_timeout, query_wait_notify. */
void clocks_arm_wait(struct client *client);
/*
 * The client is linked to the server: one clock, on the server, for all that may take
 * too long.  It runs from link_begin to link_end; only a client that keeps its server
 * while it rests (session mode) has none.  It may fire early, never late, and is set
 * again when it fires, so that it has to be armed only where something begins: the
 * link, a query in it, the time behind a ReadyForQuery.
 *
 *     query_timeout             from the first message of the query, our SETs for it
 *                               included; on replication connections from the client's
 *                               last message, as transaction_timeout there
 *     transaction_timeout       from the first message of the transaction
 *     idle_transaction_timeout  while nothing will come from the server before the
 * client has said more: idle in a transaction, in the middle of a message, behind
 * messages without Sync query_wait_timeout        while our SETs run
 */
void clocks_arm_link(struct server *server, const struct client *client);

/* conn_ops.expired of a client, and of a server that is linked to one. */
void clocks_client_expired(struct conn *conn);
void clocks_link_expired(struct conn *conn);
/* Settings have changed: sets the deadlines of this client and its server anew. */
void clocks_review(struct conn *conn);

#endif
