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
#include "session/workers.h"
#include "sim_process.h"

/* Turns between two looks; and how long a client may wait while a server rests. */
enum { EVERY = 16, RESTS_MOST_US = 500000, ORDER_US = 100000, ALONE_US = 60000000 };

/* The pool in which a client waits while a server rests, here and at another worker. */
static struct odd {
	const void *pool;
	uint64_t since_us;
} odd_here, odd_elsewhere;

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
		 server->conn.site->catalog->suspended,
	    "server %llu rests without a deadline",
	    (unsigned long long)server->conn.id);
}

static void check_requests(const struct pool *pool)
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

static bool is_held(const struct pool *pool)
{
	const struct catalog *c = pool->database->catalog;

	return pool_is_paused(pool) || c->suspended || c->is_offered || c->is_leaving ||
	       pool->is_scheduled || pool->is_killed;
}

/* Whether the first of them has waited for long. */
static bool has_waiter(const struct pool *pool)
{
	const struct pool_request *first = queue_first_waiter(pool);

	return first && first->queued_us + RESTS_MOST_US < world.now_us;
}

/* A client waits although a server rests: not for long, while all threads run. */
static void check_odd(
    struct odd *odd, const void *pool, bool is_odd, const struct database *database)
{
	if (is_odd && !odd->pool) {
		odd->pool = pool;
		odd->since_us = world.now_us;
	}
	if (odd->pool == pool && !is_odd)
		odd->pool = NULL;
	if (odd->pool && odd->since_us < world.stalled_us)
		odd->since_us = world.stalled_us;
	MUST(!is_odd || odd->pool != pool ||
		 world.now_us < odd->since_us + RESTS_MOST_US,
	    "a client of %s waits while a server rests", database->name);
}

static void check_rest(const struct pool *pool)
{
	check_odd(&odd_here, pool,
	    !is_held(pool) && has_waiter(pool) && queue_idle_slot(pool),
	    pool->database);
}

/* The same with a client of one worker and a server of another. */
static void check_rest_elsewhere(const struct pool *pool)
{
	const struct central_pool *whole = pool->part.whole;
	bool has_idle = false, waits = false;

	for (unsigned i = 0; i < pool->database->catalog->view.central->worker_count;
	     i++) {
		const struct central_part *part = whole->places[i].part;
		const struct pool *other =
		    part ? container_of(part, const struct pool, part) : NULL;
		if (!other || is_held(other))
			continue;
		has_idle = has_idle || queue_idle_slot(other);
		waits = waits || has_waiter(other);
	}
	check_odd(&odd_elsewhere, whole, has_idle && waits, pool->database);
}

/* ---- the order of waiting ---- */

struct verdict __real_queue_grant(
    struct pool_request *request, struct slot *slot, uint64_t now_us);
struct verdict __wrap_queue_grant(
    struct pool_request *request, struct slot *slot, uint64_t now_us);

static uint64_t first_since(const struct central_part *part)
{
	const struct node *first = part ? list_first(&part->waiters) : NULL;

	return first ? container_of(first, const struct pool_request, kind_node)
			   ->queued_us
		     : UINT64_MAX;
}

/* Whoever has waited longer comes first, at all workers that answer. */
struct verdict __wrap_queue_grant(
    struct pool_request *request, struct slot *slot, uint64_t now_us)
{
	const struct pool *pool = request->pool;
	const struct central_pool *whole = pool->part.whole;
	const struct catalog *c = pool->database->catalog;
	uint64_t since_us =
	    request->state == REQUEST_WAITING ? request->queued_us : now_us;
	/* no server changes workers during a takeover */
	if (central_is_frozen(c->view.central) && world.now_us > world.stalled_us)
		world.stalled_us = world.now_us;
	bool is_calm =
	    world.now_us > world.stalled_us + 10 * ORDER_US && !is_held(pool);

	MUST(first_since(&pool->part) >= since_us,
	    "a client of %s is served before another one", pool->database->name);
	for (unsigned i = 0; is_calm && i < c->view.central->worker_count; i++) {
		const struct central_part *part = whole->places[i].part;
		if (!part || part == &pool->part || part->is_closed ||
		    whole->places[i].arriving)
			continue;
		uint64_t other_us = first_since(part);
		MUST(other_us == UINT64_MAX || other_us + ORDER_US > since_us,
		    "a client of %s is served before one of another worker that has "
		    "waited %llu us longer",
		    pool->database->name, (unsigned long long)(since_us - other_us));
	}
	return __real_queue_grant(request, slot, now_us);
}

static void check_pool(const struct pool *pool)
{
	struct slot *slot;

	for (int state = SLOT_NONE + 1; state < SLOT_STATE_COUNT; state++)
		list_for (slot, &pool->slots[state], node)
			check_slot(pool, slot, (enum slot_state)state);
	check_requests(pool);
	check_rest(pool);
}

/* Servers that count, of all workers. */
static int server_count(const struct catalog *c)
{
	return atomic_load(&c->limit->servers);
}

/* Those that carry a cancel request may exceed limits. */
static int cancels_of(const char *database)
{
	const struct process *p = process_current();
	struct pool *pool;
	int count = 0;

	for (unsigned i = 0; i < p->site_count; i++)
		list_for (pool, &p->sites[i].site->catalog->pool_list, node)
			if (strcmp(pool->database->name, database) == 0)
				count += (int)pool->slots[SLOT_ACTIVE_CANCEL].count;
	return count;
}

static void check_limits(const struct catalog *c)
{
	const struct settings *s = &c->config->settings;
	struct database *db;

	/* clients that come from another process bring their servers */
	if (world.options.faults & (FAULT_RELOAD | FAULT_ADMIN | FAULT_TAKEOVER))
		return;
	MUST(!s->max_server_connections || server_count(c) <= s->max_server_connections,
	    "%d servers, and max_server_connections is %d", server_count(c),
	    s->max_server_connections);
	list_for (db, &c->database_list, node) {
		int most = scope_max_db_connections(scope_of_database(db));
		int count = db->limit ? atomic_load(&db->limit->servers) : 0;
		if (most > 0)
			count -= cancels_of(db->name);
		MUST(most <= 0 || db->is_admin || count <= most,
		    "%s has %d servers, and max_db_connections is %d", db->name, count,
		    most);
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

static size_t servers_of(const struct pool *pool)
{
	size_t servers = pool->turn.has_claim;

	for (int state = SLOT_NONE + 1; state < SLOT_STATE_COUNT; state++)
		if (state != SLOT_ACTIVE_CANCEL)
			servers += pool->slots[state].count;
	return servers;
}

static size_t arriving_in(
    const struct central *central, const struct central_pool *whole)
{
	size_t servers = 0;

	for (unsigned i = 0; i < central->worker_count; i++)
		servers += (size_t)whole->places[i].arriving;
	return servers;
}

static void check_size(const struct central *central, const struct pool *pool)
{
	const struct central_pool *whole = pool->part.whole;
	size_t servers = arriving_in(central, whole);
	int size = pool_size(pool) + pool_reserve_size(pool);
	bool has_hosts = false;

	for (unsigned i = 0; i < central->worker_count; i++) {
		const struct central_part *part = whole->places[i].part;
		const struct pool *other =
		    part ? container_of(part, const struct pool, part) : NULL;
		servers += other ? servers_of(other) : 0;
		/* each knows those that it has met */
		has_hosts = has_hosts || (other && other->balance.pool_hosts.count > 1);
	}
	/* one that looks whether a host is back does not count; sizes that are lowered
	 * hold for new servers */
	MUST(pool_size(pool) <= 0 || (int)servers <= size + has_hosts ||
		 world.options.faults & (FAULT_RELOAD | FAULT_ADMIN | FAULT_TAKEOVER),
	    "pool %s/%s has %zu servers, and pool_size is %d", pool->database->name,
	    pool->user->name, servers, pool_size(pool));
}

/* What all workers have together, when each of them is between two turns. */
static void check_together(const struct process *p)
{
	const struct catalog *control = p->control->catalog;
	const struct central *central = control->view.central;
	struct central_name *name;
	struct pool *pool;
	size_t servers = 0, at = 0;

	for (unsigned i = 0; i < p->site_count; i++)
		if (!p->sites[i].is_waiting || p->sites[i].is_leaving)
			return;
	for (unsigned i = 0; i < p->site_count; i++)
		list_for (pool, &p->sites[i].site->catalog->pool_list, node) {
			servers += servers_of(pool);
			check_size(central, pool);
			if (central->worker_count > 1)
				check_rest_elsewhere(pool);
		}
	while (central->worker_count > 1 && (name = map_next(central->by_name, &at)))
		if (name->type == CENTRAL_POOL)
			servers += arriving_in(central,
			    container_of(name, const struct central_pool, name));
	MUST((int)servers == server_count(control),
	    "%zu servers in lists and on their way, and %d are counted", servers,
	    server_count(control));
	for (unsigned i = 0; i < p->site_count; i++)
		check_limits(p->sites[i].site->catalog);
}

void checks_turn(void)
{
	struct process *p = process_current();
	struct process_site *at = process_site();
	struct pool *pool;

	if (!at || ++at->turns % EVERY || at->site->shutdown == SHUTDOWN_NOW ||
	    at->is_leaving || !p->is_up)
		return;
	/* the servers here keep to the protocol; but the last words of one that is
	 * terminated while it rests count */
	MUST(at->site->protocol_errors == 0 || world.options.faults & FAULT_SERVERS,
	    "a server is taken for one that violates the protocol");
	list_for (pool, &at->site->catalog->pool_list, node)
		check_pool(pool);
	check_together(p);
	check_clients(at->site);
}

/* Each process believes that everybody is its own. */
void checks_alone(void)
{
	static uint64_t since_us;
	const struct process *p;
	unsigned count = 0;

	for (unsigned i = 0; (p = process_number(i)); i++)
		count += !p->is_over && p->is_up && !p->is_leaving && p->control &&
			 !p->control->catalog->is_leaving;
	if (count < 2 || !since_us)
		since_us = world.now_us;
	MUST(world.now_us - since_us < ALONE_US, "%u processes serve", count);
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

static void check_empty(const struct site *site)
{
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

void checks_empty(void)
{
	const struct process *p = process_serving();

	MUST(p, "nobody serves any more");
	for (unsigned i = 0; i < p->site_count; i++)
		check_empty(p->sites[i].site);
}
