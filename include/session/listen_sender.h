/*
 * Who has sent a notification.  PostgreSQL names the process of the server; the clients
 * that get it know each other by the process ids that the pooler has told them.  So a
 * table has, for each server, the client that sends from it.  All workers share it,
 * without a lock.  A process id that no server of the table has stays as it is.
 *
 * The table also has the connections that listen, see relay/listen_hub.h and
 * relay/listen_fence.h.
 */
#ifndef SESSION_LISTEN_SENDER_H
#define SESSION_LISTEN_SENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "session/client.h"
#include "session/server.h"

/* A connection that listens for a pool, as others see it. */
struct listen_sender_hub {
	struct node node;
	uint64_t id;
	size_t key_len;
	const char *key; /* borrowed: names of database and user, each with its NUL */
};

/* The table is made with the first connection that listens, and is there from then on.
 * True: it was made now. */
bool listen_sender_add_hub(const struct pool *pool, struct listen_sender_hub *hub);
void listen_sender_remove_hub(const struct pool *pool, struct listen_sender_hub *hub);
/* Does any connection of the process listen? */
bool listen_sender_has_hubs(const struct pool *pool);
/* Calls fn for each connection that listens in this pool's database, under a lock. */
typedef void listen_sender_fn(void *ctx, const struct listen_sender_hub *hub);
void listen_sender_each_hub(const struct pool *pool, listen_sender_fn *fn, void *ctx);

/* From now on notifications of this server are the client's; NULL: nobody's, they keep
 * the server's process id. */
void listen_sender_set(const struct server *server, const struct client *client);
/* The process id of the sender as its client knows it; pid if that is not known. */
uint32_t listen_sender_find(const struct pool *pool, uint32_t pid);

#endif
