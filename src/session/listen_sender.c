/*
 * The table of senders: one place for several servers, of which the last one counts.
 */
#include "session/listen_sender.h"

#include <string.h>

#include "pool/exchange.h"

enum { PLACES = 64 * 1024 };

struct listen_senders {
	pthread_mutex_t lock;
	struct list hubs; /* struct listen_sender_hub by .node; protected by the lock */
	atomic_size_t hub_count;
	/* process ids: of a server, and of its client in the lower half */
	atomic_ullong places[PLACES];
};

static struct listen_senders *table_of(const struct pool *pool)
{
	return atomic_load_explicit(
	    &exchange_view(pool)->central->listen_senders, memory_order_acquire);
}

/* ---- connections that listen ---- */

static void change_hubs(struct listen_senders *table, struct listen_sender_hub *hub,
    void change(struct list *list, struct node *node))
{
	pthread_mutex_lock(&table->lock);
	change(&table->hubs, &hub->node);
	atomic_store(&table->hub_count, table->hubs.count);
	pthread_mutex_unlock(&table->lock);
}

bool listen_sender_add_hub(const struct pool *pool, struct listen_sender_hub *hub)
{
	struct listen_senders *none = NULL, *table = table_of(pool);
	bool is_new = !table;

	if (is_new) {
		table = mem_zero(sizeof(*table));
		pthread_mutex_init(&table->lock, NULL);
		list_init(&table->hubs);
		if (!atomic_compare_exchange_strong(
			&exchange_view(pool)->central->listen_senders, &none, table)) {
			mem_free(table);
			table = none;
			is_new = false;
		}
	}
	change_hubs(table, hub, list_push_back);
	return is_new;
}

void listen_sender_remove_hub(const struct pool *pool, struct listen_sender_hub *hub)
{
	change_hubs(table_of(pool), hub, list_remove);
}

bool listen_sender_has_hubs(const struct pool *pool)
{
	struct listen_senders *table = table_of(pool);

	return table && atomic_load(&table->hub_count);
}

void listen_sender_each_hub(const struct pool *pool, listen_sender_fn *fn, void *ctx)
{
	struct listen_senders *table = table_of(pool);
	const struct listen_sender_hub *hub;

	if (!table)
		return;
	pthread_mutex_lock(&table->lock);
	list_for (hub, &table->hubs, node)
		if (strcmp(hub->key, pool->database->name) == 0)
			fn(ctx, hub);
	pthread_mutex_unlock(&table->lock);
}

/* ---- senders ---- */

/* Servers of different machines may have the same process id. */
static atomic_ullong *place_of(
    struct listen_senders *table, const struct pool *pool, uint32_t pid)
{
	uint32_t hash = pid * UINT32_C(0x9e3779b1);

	for (const char *p = pool->database->name; *p; p++)
		hash = (hash ^ (uint8_t)*p) * UINT32_C(0x01000193);
	return &table->places[hash % PLACES];
}

void listen_sender_set(const struct server *server, const struct client *client)
{
	struct listen_senders *table = table_of(server->slot.pool);
	uint32_t pid = 0;

	if (!table || !server->remote_pid)
		return;
	if (client && client->cancel_key.len >= sizeof(pid))
		pid = get_u32(cancel_key_bytes(&client->cancel_key));
	atomic_store(place_of(table, server->slot.pool, server->remote_pid),
	    (uint64_t)server->remote_pid << 32 | pid);
}

uint32_t listen_sender_find(const struct pool *pool, uint32_t pid)
{
	struct listen_senders *table = table_of(pool);
	uint64_t found = table ? atomic_load(place_of(table, pool, pid)) : 0;

	return found >> 32 == pid && (uint32_t)found ? (uint32_t)found : pid;
}
