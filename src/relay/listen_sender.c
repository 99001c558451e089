/*
 * The table of senders: one place for several servers, of which the last one counts.
 */
#include "relay/listen_sender.h"

#include <string.h>

#include "pool/exchange.h"

enum {
	PLACES = 16 * 1024,
	/* So long after its begin a link may not have sent what arrives now. */
	YOUNG_US = 2000,
};

struct sender {
	atomic_uint server; /* process ids: of the server, */
	atomic_uint last;   /* the client that has it, or had it last, */
	atomic_uint before; /* and the one before */
	atomic_bool is_linked;
	atomic_ullong since_us;
};

struct listen_senders {
	struct sender places[PLACES];
};

static struct listen_senders *table_of(const struct pool *pool)
{
	return atomic_load_explicit(
	    &exchange_view(pool)->central->listen_senders, memory_order_acquire);
}

void listen_sender_want(const struct pool *pool)
{
	struct listen_senders *none = NULL, *table;

	if (table_of(pool))
		return;
	table = mem_zero(sizeof(*table));
	if (!atomic_compare_exchange_strong(
		&exchange_view(pool)->central->listen_senders, &none, table))
		mem_free(table);
}

/* Servers of different machines may have the same process id. */
static struct sender *sender_of(
    struct listen_senders *table, const struct pool *pool, uint32_t pid)
{
	uint32_t hash = pid * UINT32_C(0x9e3779b1);

	for (const char *p = pool->database->name; *p; p++)
		hash = (hash ^ (uint8_t)*p) * UINT32_C(0x01000193);
	return &table->places[hash % PLACES];
}

void listen_sender_link(const struct server *server, const struct client *client)
{
	struct listen_senders *table = table_of(server->slot.pool);
	unsigned pid;

	if (!table || client->cancel_key.len < sizeof(uint32_t))
		return;
	struct sender *s = sender_of(table, server->slot.pool, server->remote_pid);
	pid = get_u32(cancel_key_bytes(&client->cancel_key));
	atomic_store(&s->before,
	    atomic_load(&s->server) == server->remote_pid ? atomic_load(&s->last) : 0);
	atomic_store(&s->server, server->remote_pid);
	atomic_store(&s->since_us, conn_now(&server->conn));
	atomic_store(&s->last, pid);
	atomic_store(&s->is_linked, true);
}

void listen_sender_unlink(const struct server *server)
{
	struct listen_senders *table = table_of(server->slot.pool);

	if (table)
		atomic_store(
		    &sender_of(table, server->slot.pool, server->remote_pid)->is_linked,
		    false);
}

uint32_t listen_sender_find(const struct pool *pool, uint32_t pid, uint64_t now_us)
{
	struct listen_senders *table = table_of(pool);
	struct sender *s = table ? sender_of(table, pool, pid) : NULL;
	unsigned before;

	if (!s || atomic_load(&s->server) != pid)
		return pid;
	before = atomic_load(&s->before);
	if (before && atomic_load(&s->is_linked) &&
	    now_us - atomic_load(&s->since_us) < YOUNG_US)
		return before;
	return atomic_load(&s->last);
}
