/*
 * What must be true of the pooler between two turns of its loop, and when everybody has
 * left.  This is the only file of the simulation that looks inside.
 */
#include <string.h>

#include "pool/pool.h"
#include "pool/queue.h"
#include "session/client.h"
#include "session/server.h"
#include "session/site.h"
#include "sim.h"

/* Turns between two looks; and how long a client may wait while a server rests. */
enum { EVERY = 16, RESTS_MOST_US = 1000000 };

static struct {
	uint64_t turns;
	const struct pool *pool; /* in which a client waits while a server rests */
	uint64_t since_us;
} seen_so_far;

static bool is_armed(const struct deadline *d)
{
	return d->at_us != UINT64_MAX;
}

static void check_slot(
    const struct pool *pool, const struct slot *slot, enum slot_state state)
{
	const struct server *server = slot_server(slot);

	MUST(slot->state == state && slot->pool == pool,
	    "a server is in the list of another state");
	if (slot->request) {
		MUST(slot->request->slot == slot &&
			 slot->request->state == REQUEST_LINKED,
		    "server %llu has a client that has not it",
		    (unsigned long long)server->conn.id);
		MUST(state == SLOT_ACTIVE || state == SLOT_LOGIN,
		    "a server that is not in use has a client");
	}
	if (state != SLOT_IDLE && state != SLOT_USED)
		return;
	MUST(pipeline_is_settled(&server->pipeline) && server->status == 'I',
	    "server %llu rests and owes answers", (unsigned long long)server->conn.id);
	MUST(server->conn.is_doomed || is_armed(&server->conn.deadline) ||
		 world.site->catalog->suspended,
	    "server %llu rests without a deadline",
	    (unsigned long long)server->conn.id);
}

static void check_asks(const struct pool *pool)
{
	struct pool_request *request;
	size_t linked = 0;

	list_for (request, &pool->clients, node) {
		MUST(request->pool == pool, "a client is in the list of another pool");
		MUST((request->state == REQUEST_LINKED) == (request->slot != NULL),
		    "a client is linked to no server");
		MUST(!request->slot || request->slot->request == request,
		    "two clients have one server");
		linked += request->slot != NULL;
	}
	list_for (request, &pool->waiting, node)
		MUST(request->state == REQUEST_WAITING && !request->slot,
		    "a client that has a server waits");
	MUST(pool->waiting.count == pool->part.waiters.count +
					pool->param_waiters.count +
					pool->replicas.count,
	    "queues and waiting clients differ");
}

/* A client waits although a server rests: not for long. */
static void check_rest(const struct pool *pool)
{
	bool is_held = pool_is_paused(pool) || pool->database->catalog->suspended ||
		       pool->database->catalog->is_offered || pool->is_scheduled ||
		       pool->is_killed;
	bool is_odd = !is_held && queue_first_waiter(pool) && queue_idle_slot(pool);

	if (is_odd && !seen_so_far.pool) {
		seen_so_far.pool = pool;
		seen_so_far.since_us = world.now_us;
	}
	if (seen_so_far.pool == pool && !is_odd)
		seen_so_far.pool = NULL;
	MUST(!is_odd || seen_so_far.pool != pool ||
		 world.now_us - seen_so_far.since_us < RESTS_MOST_US,
	    "a client of %s waits while a server rests", pool->database->name);
}

static size_t check_pool(const struct pool *pool)
{
	size_t servers = 0;
	struct slot *slot;
	int size = pool_size(pool) + pool_reserve_size(pool);

	for (int state = SLOT_NONE + 1; state < SLOT_STATE_COUNT; state++) {
		list_for (slot, &pool->slots[state], node)
			check_slot(pool, slot, (enum slot_state)state);
		if (state != SLOT_ACTIVE_CANCEL)
			servers += pool->slots[state].count;
	}
	/* one that looks whether a host is back does not count; sizes that are lowered
	 * hold for new servers */
	MUST(pool_size(pool) <= 0 ||
		 (int)servers <= size + (pool->balance.pool_hosts.count > 1) ||
		 world.options.faults & (FAULT_RELOAD | FAULT_ADMIN),
	    "pool %s/%s has %zu servers, and pool_size is %d", pool->database->name,
	    pool->user->name, servers, pool_size(pool));
	check_asks(pool);
	check_rest(pool);
	return servers;
}

/* Servers that count, of all workers. */
static int server_count(const struct catalog *c)
{
	return atomic_load(&c->limit->servers);
}

static void check_limits(struct catalog *c)
{
	const struct settings *s = &c->config->settings;
	struct database *db;

	if (world.options.faults & (FAULT_RELOAD | FAULT_ADMIN))
		return;
	MUST(!s->max_server_connections || server_count(c) <= s->max_server_connections,
	    "%d servers, and max_server_connections is %d", server_count(c),
	    s->max_server_connections);
	list_for (db, &c->database_list, node) {
		int most = scope_max_db_connections(scope_of_database(db));
		MUST(most <= 0 || db->is_admin || db->server_count <= most,
		    "%s has %d servers, and max_db_connections is %d", db->name,
		    db->server_count, most);
	}
}

static void check_clients(struct site *site)
{
	struct client *client;

	list_for (client, &site->clients, site_node)
		MUST(client->conn.is_doomed ||
			 client->request.in_pool.state != REQUEST_WAITING ||
			 is_armed(&client->conn.deadline) || site->catalog->suspended ||
			 client->conn.is_stopped,
		    "client %llu waits without a deadline",
		    (unsigned long long)client->conn.id);
	list_for (client, &site->login_clients, site_node)
		MUST(client->conn.is_doomed || is_armed(&client->conn.deadline) ||
			 site->catalog->suspended || client->conn.is_stopped,
		    "client %llu logs in without a deadline",
		    (unsigned long long)client->conn.id);
}

void checks_turn(void)
{
	struct site *site = world.site;
	struct pool *pool;
	size_t servers = 0;

	if (!site || ++seen_so_far.turns % EVERY || site->shutdown == SHUTDOWN_NOW)
		return;
	/* the servers here keep to the protocol; but the last words of one that is
	 * terminated while it rests count */
	MUST(site->protocol_errors == 0 || world.options.faults & FAULT_SERVERS,
	    "a server is taken for one that violates the protocol");
	list_for (pool, &site->catalog->pool_list, node)
		servers += check_pool(pool) + pool->turn.has_claim;
	MUST((int)servers == server_count(site->catalog),
	    "%zu servers in lists, and %d are counted", servers,
	    server_count(site->catalog));
	check_limits(site->catalog);
	check_clients(site);
}

/* Objects of clients and their messages; what stays belongs to servers or caches. */
static bool is_gone_with_clients(const char *name)
{
	static const char *const names[] = {"client_cache", "login_cache",
	    "stream_queue", "unnamed_cache", "replay_cache", "name_map_cache"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

void checks_empty(void)
{
	struct site *site = world.site;
	struct pool *pool;
	struct slab *slab;

	MUST(site->clients.count == 0 && site->login_clients.count == 0,
	    "%zu and %zu clients are left", site->clients.count,
	    site->login_clients.count);
	list_for (pool, &site->catalog->pool_list, node) {
		MUST(pool->clients.count == 0 && pool->waiting.count == 0,
		    "pool %s has clients when all have left", pool->database->name);
		MUST(pool->slots[SLOT_ACTIVE].count == 0 &&
			 pool->cancels_waiting.count == 0 &&
			 pool->cancels_active.count == 0,
		    "pool %s has servers in use when all have left",
		    pool->database->name);
	}
	list_for (slab, &site->mem.slabs, node) {
		SEEN("slab %s: %zu used", slab->name, slab->used);
		MUST(!is_gone_with_clients(slab->name) || slab->used == 0,
		    "%zu objects of %s are left", slab->used, slab->name);
	}
}
