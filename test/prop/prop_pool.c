/* links: pool wire auth net conf base */
/*
 * Random clients, servers and administrators against the pools, with a broker that only
 * carries out verdicts.  After each event, when every scheduled pool has been asked: no
 * other pool has a verdict to give, lists and counts agree, no server is lent twice, no
 * limit is exceeded, clients are served in order, and no client waits without a reason.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pool/catalog.h"
#include "pool/hosts_role.h"
#include "pool/pool.h"
#include "prop_config.h"

enum {
	EVENTS = 1000,
	RUNS = 150,
	REQUESTS = 40,
	SLOTS = 200,
	KICKS = 256,
	NAMES = 7,
	USERS = 4,
	SECOND = 1000000,
};

static const char full_ini[] =
    "[databases]\n"
    "a = max_db_connections=4 host=h1,h2,h3 weight=2,1,1\n"
    "b = user=f password=x min_pool_size=2 pool_size=3\n"
    "c = reserve_pool_size=2 pool_size=2 host=h1,h2 "
    "load_balance_hosts=least-connections\n"
    "d = pool_size=0 host=h1,h2,h3 load_balance_hosts=random "
    "target_session_attrs=prefer-standby\n"
    "e = pool_size=3 host=h1,h2 "
    "target_session_attrs=read-write\n"
    "* = max_db_connections=3\n"
    "[users]\n"
    "u1 = max_user_connections=5\n"
    "u2 = pool_mode=session pool_size=1\n"
    "[pgbouncer]\n"
    "pool_mode = transaction\n"
    "default_pool_size = 4\n"
    "max_user_connections = 12\n"
    "server_lifetime = 30\n"
    "server_check_delay = 2\n"
    "server_idle_timeout = 40\n"
    "pool_idle_timeout = 30\n"
    "autodb_idle_timeout = 60\n";
/* With this file c is gone, and a and the template have other values. */
static const char other_ini[] = "[databases]\n"
				"a = max_db_connections=3 host=127.0.0.1\n"
				"b = user=f password=x min_pool_size=1 pool_size=2\n"
				"d = pool_size=0\n"
				"* = max_db_connections=2 host=127.0.0.1\n"
				"[pgbouncer]\n"
				"pool_mode = transaction\n"
				"default_pool_size = 2\n"
				"pool_idle_timeout = 30\n"
				"autodb_idle_timeout = 60\n";

/* The only limits are the pools' own sizes and max_server_connections. */
static const char plain_ini[] = "[databases]\n"
				"a = min_pool_size=1\n"
				"b = user=f password=x min_pool_size=2 pool_size=3\n"
				"c = pool_mode=session min_pool_size=2\n"
				"* =\n"
				"[pgbouncer]\n"
				"pool_mode = transaction\n"
				"default_pool_size = 5\n"
				"max_server_connections = 8\n"
				"server_idle_timeout = 40\n"
				"pool_idle_timeout = 30\n"
				"autodb_idle_timeout = 60\n";

static const char *const database_names[NAMES] = {
    "a", "b", "c", "d", "e", "auto1", "auto2"};
static const char *const user_names[USERS] = {"u1", "u2", "u3", "f"};

struct client {
	struct pool_request request;
	struct database *database;
	uint64_t turn; /* number of the event at which it began to wait */
};

struct server {
	struct slot slot;
	uint64_t review_us;
	bool is_lent, is_closing, is_used;
};

/* pool->runner points to it. */
struct runner {
	uint64_t wake_us;
	bool is_killed, looks_soon;
};

struct fixture {
	uint64_t seed, random, now, event;
	struct mem mem;
	struct catalog *c;
	struct config *configs[3]; /* the last one is for plain runs */
	struct client clients[REQUESTS];
	struct server servers[SLOTS];
	struct pool *scheduled[KICKS];
	size_t schedule_head, schedule_count;
	bool is_quiet; /* no pool should have a verdict to give */
	bool is_plain;
	unsigned grants, dials, evictions, refusals, full, kept, pressed, replaced;
};

static void fail(const struct fixture *w, const char *what, int line)
{
	fprintf(stderr, "seed %" PRIu64 ", event %" PRIu64 ", line %d: %s\n", w->seed,
	    w->event, line, what);
	abort();
}
#undef CHECK
#define CHECK(what)                               \
	do {                                      \
		if (!(what))                      \
			fail(w, #what, __LINE__); \
	} while (0)

static unsigned any(struct fixture *w, unsigned n)
{
	return (unsigned)(random_next(&w->random) >> 16) % n;
}

static struct server *server_of(struct slot *slot)
{
	return container_of(slot, struct server, slot);
}

static struct client *client_of(struct pool_request *request)
{
	return container_of(request, struct client, request);
}

/* ---- the events of the catalog ---- */

static struct runner *runner_of(struct pool *pool)
{
	if (!pool->runner) {
		pool->runner = calloc(1, sizeof(struct runner));
		pool->runner->wake_us = UINT64_MAX;
	}
	return pool->runner;
}

static void on_schedule(void *ctx, struct pool *pool)
{
	struct fixture *w = ctx;

	CHECK(w->schedule_count < KICKS);
	runner_of(pool);
	pool->is_scheduled = true;
	w->scheduled[(w->schedule_head + w->schedule_count++) % KICKS] = pool;
}

static void on_kill(void *ctx, struct pool *pool, const char *reason)
{
	(void)ctx, (void)reason;
	runner_of(pool)->is_killed = true;
}

static void on_freed(void *ctx, struct pool *pool)
{
	struct fixture *w = ctx;

	for (size_t i = 0; i < w->schedule_count; i++) {
		struct pool **at = &w->scheduled[(w->schedule_head + i) % KICKS];
		if (*at == pool)
			*at = NULL;
	}
	free(pool->runner);
	pool->runner = NULL;
}

/* The monitor looks when it likes: see monitor_tells. */
static void on_hint(
    void *ctx, const struct host *host, const struct host_report *report)
{
	(void)ctx;
	(void)host;
	(void)report;
}

static const struct catalog_events events = {
    .schedule = on_schedule, .kill = on_kill, .freed = on_freed, .hint = on_hint};

/* ---- carrying out verdicts ---- */

static void close_server(struct fixture *w, struct server *server)
{
	struct pool *pool = server->slot.pool;

	pool_gone(&server->slot, w->now);
	CHECK(!server->slot.pool && !server->slot.request);
	pool_gone(&server->slot, w->now);
	*server = (struct server){.review_us = UINT64_MAX};
	pool_free_if_unused(pool);
}

static void check_grant(struct fixture *w, const struct verdict *v)
{
	struct server *server = server_of(v->slot);
	struct client *client = client_of(v->request);
	struct pool *pool = v->slot->pool;

	CHECK(v->slot->request == v->request && v->request->slot == v->slot);
	CHECK(v->slot->state == SLOT_ACTIVE && v->request->state == REQUEST_LINKED);
	CHECK(v->request->pool == pool && !pool->is_killed);
	CHECK(!v->slot->is_dirty);
	if (v->slot->is_replication) {
		CHECK(v->request->kind == REQUEST_REPLICATION);
	} else {
		CHECK(!pool_is_paused(pool) && !server->is_lent);
		CHECK(v->request->kind == REQUEST_QUERY ||
		      v->request->kind == REQUEST_AUTH);
		/* clients are served in order */
		for (int i = 0; i < REQUESTS; i++) {
			const struct client *other = &w->clients[i];
			bool is_rival = other->request.pool == pool &&
					other->request.state == REQUEST_WAITING &&
					other->request.kind != REQUEST_PARAMS &&
					other->request.kind != REQUEST_REPLICATION;
			CHECK(!is_rival || other->turn > client->turn);
		}
	}
	server->is_lent = true;
	server->review_us = UINT64_MAX;
	w->grants++;
}

static int process_limit(const struct fixture *w)
{
	return w->c->config->settings.max_server_connections;
}

/* Logins that take long do not count while another host can be tried. */
static size_t slow_beside(const struct fixture *w, const struct pool *pool)
{
	return hosts_has_candidate(pool, w->now) ? pool->balance.slow_logins : 0;
}

/* One login at each host at a time, and no more of them than clients wait. */
static bool may_open_beside(const struct pool *pool)
{
	const struct list *logins = &pool->slots[SLOT_LOGIN];
	const struct slot *slot;

	list_for (slot, logins, node)
		if (slot->pool_host->host == pool->balance.claimed)
			return false;
	return logins->count < pool->waiting.count;
}

static void check_dial(
    struct fixture *w, const struct pool *pool, const struct verdict *v)
{
	int size = pool_size(pool), reserve = pool_reserve_size(pool);
	int db_limit = scope_max_db_connections(scope_of_pool(pool));
	int user_limit = scope_max_user_connections(scope_of_user(pool->user));
	size_t room = (size_t)size + (v->is_reserve ? (size_t)reserve : 0);
	bool has_other =
	    pool->failure.kind == FAILURE_HOSTS && hosts_has_candidate(pool, w->now);
	uint64_t retry_us = scope_server_login_retry(scope_of_pool(pool));

	if (hosts_are_watched(pool->database) && retry_us > SECOND)
		retry_us = SECOND;
	CHECK(!pool_is_paused(pool) && !pool->is_killed);
	CHECK(pool->slots[SLOT_LOGIN].count == slow_beside(w, pool) ||
	      may_open_beside(pool));
	CHECK(!size || pool_server_count(pool) - slow_beside(w, pool) < room);
	CHECK(db_limit <= 0 || pool->database->server_count < db_limit);
	CHECK(user_limit <= 0 || pool->user->server_count < user_limit);
	/* the one that is to be opened is counted */
	CHECK(process_limit(w) <= 0 ||
	      central_read(&w->c->limit->servers) <= process_limit(w));
	CHECK(!pool->failure.kind || has_other || w->now >= pool->dial_us + retry_us);
}

static struct server *unused_server(struct fixture *w)
{
	for (int i = 0; i < SLOTS; i++) {
		if (!w->servers[i].is_used) {
			w->servers[i].is_used = true;
			return &w->servers[i];
		}
	}
	CHECK(!"more servers than ever should be needed");
	return NULL;
}

static void dial(struct fixture *w, struct pool *pool, const struct verdict *v)
{
	struct server *server = unused_server(w);

	check_dial(w, pool, v);
	if (v->is_replication) {
		CHECK(v->request->kind == REQUEST_REPLICATION &&
		      v->request->state == REQUEST_WAITING);
		server->slot.is_replication = true;
		server->slot.request = v->request;
	}
	pool_dialing(pool, &server->slot, w->now);
	w->dials++;
}

static uint64_t first_wait(const struct pool *pool)
{
	struct node *first = list_first(&pool->waiting);

	return first ? container_of(first, struct pool_request, node)->queued_us
		     : UINT64_MAX;
}

/* Under max_server_connections, pools with a server wait this much longer. */
enum { PATIENCE = 5 * SECOND };

/* For how long room is left to others at most. */
enum { COURTESY = SECOND / 5 };

static uint64_t place_in_process(const struct pool *pool)
{
	struct node *first = list_first(&pool->waiting);

	if (!first)
		return UINT64_MAX;
	const struct pool_request *request =
	    container_of(first, struct pool_request, node);
	bool has_nothing =
	    !pool_connected_count(pool) || request->kind == REQUEST_REPLICATION;
	return request->queued_us + (has_nothing ? 0 : PATIENCE);
}

/* Another pool has a client that has waited longer than the first one here that could
 * have the server. */
static bool is_others_turn(const struct fixture *w, const struct pool *pool)
{
	struct node *first = list_first(&pool->part.waiters);
	uint64_t own_us =
	    container_of(first, struct pool_request, kind_node)->queued_us;
	uint64_t place_us = own_us + (pool_connected_count(pool) ? PATIENCE : 0);
	const struct pool *other;

	list_for (other, &w->c->pool_list, node) {
		bool pool_hosts =
		    other->database == pool->database || other->user == pool->user;
		if (other == pool)
			continue;
		if (pool_hosts && first_wait(other) < own_us)
			return true;
		if (process_limit(w) && place_in_process(other) < place_us)
			return true;
	}
	return false;
}

static bool is_anybody_pressing(const struct fixture *w)
{
	const struct pool *pool;

	list_for (pool, &w->c->pool_list, node) {
		if (place_in_process(pool) <= w->now)
			return true;
	}
	return false;
}

/* A pool keeps min_pool_size servers, unless another has none or waited too long. */
static void check_least_size(struct fixture *w, const struct pool *pool)
{
	bool is_wanted = !list_is_empty(&pool->clients) ||
			 !list_is_empty(&pool->waiting) ||
			 pool->user == pool->database->forced_user;

	if (!w->is_plain || !is_wanted)
		return;
	if (pool_connected_count(pool) >= (size_t)pool_min_size(pool)) {
		w->kept++;
		return;
	}
	bool is_own = !list_is_empty(&pool->replicas);
	CHECK(is_own || is_anybody_pressing(w));
	w->pressed++;
}

static void retire(struct fixture *w, const struct verdict *v)
{
	struct server *server = server_of(v->slot);

	CHECK(v->text && v->slot->state == SLOT_NONE && v->slot->pool);
	CHECK(!server->is_lent || v->slot->is_replication || v->slot->request == NULL);
	bool is_evicted = strcmp(v->text, "evicted") == 0;
	/* the one that took its place is there, unless there was no room */
	CHECK(strcmp(v->text, "server lifetime over") != 0 ||
	      !v->slot->pool->replacement.old);
	CHECK(!is_evicted || list_is_empty(&v->slot->pool->part.waiters) ||
	      !list_is_empty(&v->slot->pool->replicas) ||
	      is_others_turn(w, v->slot->pool));
	w->evictions += is_evicted;
	if (is_evicted)
		check_least_size(w, v->slot->pool);
	server->is_closing = true;
	server->review_us = UINT64_MAX;
	if (any(w, 2))
		close_server(w, server);
}

static void carry(struct fixture *w, struct pool *pool, const struct verdict *v)
{
	switch (v->kind) {
	case VERDICT_GRANT:
		check_grant(w, v);
		break;
	case VERDICT_DIAL:
		dial(w, pool, v);
		break;
	case VERDICT_RETIRE:
		retire(w, v);
		break;
	case VERDICT_CHECK:
	case VERDICT_RESET:
		CHECK(v->slot->state == SLOT_TESTED && !v->slot->is_dirty);
		break;
	case VERDICT_PREPARE:
		CHECK(v->slot->state == SLOT_TESTED && !v->slot->is_dirty);
		CHECK(v->model && v->model->pool == pool && v->model->state);
		w->replaced++;
		break;
	case VERDICT_REST:
		CHECK(v->slot->state == SLOT_IDLE || v->slot->state == SLOT_USED);
		server_of(v->slot)->review_us = v->wake_us;
		break;
	case VERDICT_PARK:
		CHECK(v->slot->state == SLOT_BEING_CANCELED);
		break;
	case VERDICT_REFUSE:
		CHECK(v->text && *v->text && strlen(v->sqlstate) == 5);
		CHECK(v->request->state == REQUEST_RESTING);
		w->refusals++;
		break;
	case VERDICT_ADMIT:
		CHECK(v->request->kind == REQUEST_PARAMS &&
		      v->request->state == REQUEST_RESTING);
		CHECK(pool_has_login_params(v->request->pool));
		v->request->is_logged_in = true;
		break;
	case VERDICT_HAND:
		CHECK(false); /* there is one site */
		break;
	case VERDICT_WAIT:
	case VERDICT_NONE:
		break;
	}
}

/* Whether another pool's client has waited longer for room under this limit. */
static bool has_elder(
    const struct fixture *w, const struct pool *pool, enum conn_limit kind)
{
	const struct heap *queue =
	    kind == CONN_LIMIT_USER       ? &pool->user->limit->starving
	    : kind == CONN_LIMIT_DATABASE ? &pool->database->limit->starving
					  : &w->c->limit->starving;
	const struct heap_node *first = heap_first(queue);

	return first &&
	       first->key < (kind == CONN_LIMIT_PROCESS ? place_in_process(pool)
							: first_wait(pool));
}

/* Room is left for a moment to one who has waited longer, perhaps for room under other
 * limits as well; and those behind it look from time to time whether it is used. */
static bool leaves_room(const struct fixture *w, const struct pool *pool)
{
	if (list_is_empty(&pool->waiting) || !pool->runner->looks_soon)
		return false;
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		if (has_elder(w, pool, kind) &&
		    (pool->turn.yielded_us || heap_has(&pool->part.rooms[kind])))
			return true;
	return false;
}

/* It looks again after a tenth of the time that its first client has waited. */
static bool looks_soon(
    const struct fixture *w, const struct pool *pool, uint64_t wake_us)
{
	uint64_t longest_us =
	    list_is_empty(&pool->waiting) ? 0 : (w->now - first_wait(pool)) / 10;

	return wake_us <= w->now + (longest_us < COURTESY ? COURTESY : longest_us);
}

/* A pool looks from time to time whether there is room for min_pool_size, or for a host
 * whose turn it is to be probed. */
static bool is_refill(
    const struct fixture *w, const struct pool *pool, const struct verdict *v)
{
	if (v->kind == VERDICT_DIAL && pool->balance.claimed == hosts_wanted(pool))
		return true;
	bool is_taking = v->kind == VERDICT_RETIRE && strcmp(v->text, "evicted") == 0;
	/* whose turn it is changes with other pools, and the login under way wakes this
	 * one */
	if ((v->kind == VERDICT_DIAL || is_taking) &&
	    pool->slots[SLOT_LOGIN].count > slow_beside(w, pool))
		return true;
	/* no client waits, or only for a server that is being tested */
	return (v->kind == VERDICT_DIAL || is_taking) &&
	       pool->waiting.count <= pool->slots[SLOT_TESTED].count &&
	       pool->runner->wake_us != UINT64_MAX;
}

static void serve(struct fixture *w, struct pool *pool)
{
	pool->is_scheduled = false;
	for (unsigned steps = 0;; steps++) {
		CHECK(steps < 2 * (REQUESTS + SLOTS));
		bool is_behind = w->is_quiet && leaves_room(w, pool);
		unsigned wanted = pool->part.wanted;
		struct verdict v = pool_next(pool, w->now);
		/* Carrying out may free the pool when it was killed. */
		bool is_killed = pool->is_killed;
		if (v.kind == VERDICT_NONE) {
			runner_of(pool)->wake_us = v.wake_us;
			pool->runner->looks_soon = looks_soon(w, pool, v.wake_us);
			CHECK(v.wake_us > w->now);
			/* Whether another login may begin beside one depends on whose
			 * turn a host is, which changes with other pools. */
			if (pool->slots[SLOT_LOGIN].count &&
			    pool->part.wanted != wanted)
				w->is_quiet = false;
			return;
		}
		CHECK(!w->is_quiet || is_behind || is_refill(w, pool, &v));
		/* A closed server may give other pools a verdict to carry out. */
		if (v.kind == VERDICT_RETIRE)
			w->is_quiet = false;
		carry(w, pool, &v);
		if (is_killed)
			return;
	}
}

static void serve_scheduled(struct fixture *w)
{
	for (unsigned steps = 0; w->schedule_count; steps++) {
		CHECK(steps < 10000);
		struct pool *pool = w->scheduled[w->schedule_head];
		w->schedule_head = (w->schedule_head + 1) % KICKS;
		w->schedule_count--;
		if (pool)
			serve(w, pool);
	}
}

/* ---- checks ---- */

static void check_slots(struct fixture *w)
{
	struct pool *pool;
	size_t listed[SLOT_STATE_COUNT] = {0}, seen[SLOT_STATE_COUNT] = {0};

	list_for (pool, &w->c->pool_list, node) {
		for (int state = 0; state < SLOT_STATE_COUNT; state++) {
			struct slot *slot;
			listed[state] += pool->slots[state].count;
			list_for (slot, &pool->slots[state], node) {
				CHECK(slot->pool == pool && (int)slot->state == state);
				seen[state]++;
			}
		}
	}
	size_t used = 0, total = 0;
	for (int state = 0; state < SLOT_STATE_COUNT; state++) {
		CHECK(listed[state] == seen[state]);
		total += seen[state];
	}
	for (int i = 0; i < SLOTS; i++) {
		const struct server *server = &w->servers[i];
		used += server->is_used;
		if (server->slot.request) {
			CHECK(server->slot.request->slot == &server->slot);
			CHECK(server->slot.request->state == REQUEST_LINKED);
		}
		CHECK(!server->is_closing || server->slot.state == SLOT_NONE);
	}
	CHECK(used == total);
}

static void check_asks(struct fixture *w)
{
	size_t resting = 0, waiting = 0, listed_clients = 0, listed_waiting = 0;
	struct pool *pool;

	for (int i = 0; i < REQUESTS; i++) {
		const struct pool_request *request = &w->clients[i].request;
		resting += request->state == REQUEST_RESTING ||
			   request->state == REQUEST_LINKED;
		waiting += request->state == REQUEST_WAITING;
		CHECK((request->state == REQUEST_LINKED) == (request->slot != NULL));
	}
	list_for (pool, &w->c->pool_list, node) {
		listed_clients += pool->clients.count;
		listed_waiting += pool->waiting.count;
		CHECK(pool->waiting.count == pool->part.waiters.count +
						 pool->param_waiters.count +
						 pool->replicas.count);
	}
	CHECK(resting == listed_clients && waiting == listed_waiting);
}

static void check_counts_of_database(struct fixture *w, const struct database *db)
{
	size_t servers = 0, resting = 0;
	const struct pool *pool;
	const struct slot *slot;
	uint64_t last = 0;
	int clients = 0;

	list_for (pool, &db->pools, db_node) {
		servers += pool_server_count(pool);
		resting += pool->slots[SLOT_IDLE].count + pool->slots[SLOT_USED].count;
		CHECK(!heap_has(&pool->part.rooms[CONN_LIMIT_DATABASE]) ||
		      pool->waiting.count);
		CHECK(!heap_has(&pool->part.rooms[CONN_LIMIT_DATABASE]) ||
		      pool->part.rooms[CONN_LIMIT_DATABASE].key == first_wait(pool));
	}
	for (int i = 0; i < REQUESTS; i++)
		clients += w->clients[i].database == db;
	CHECK(db->server_count == (int)servers && db->client_count == clients);
	CHECK(db->resting.count == resting);
	list_for (slot, &db->resting, db_node) {
		CHECK(slot->state == SLOT_IDLE || slot->state == SLOT_USED);
		CHECK(slot->rested_us >= last);
		last = slot->rested_us;
	}
	CHECK((db->idle_since_us != 0) == (db->is_auto && !clients && !servers));
}

static void check_hosts_of_database(struct fixture *w, const struct database *db)
{
	const struct pool_host *pool_host;
	struct pool *pool;

	for (size_t i = 0; i < db->hosts.count; i++) {
		const struct host *host = db->hosts.list[i];
		size_t count[SLOT_STATE_COUNT] = {0}, slow = 0;
		for (int n = 0; n < SLOTS; n++) {
			const struct slot *slot = &w->servers[n].slot;
			if (!slot->pool_host || slot->pool_host->host != host)
				continue;
			count[0]++;
			count[slot->state]++;
			slow += slot->is_slow;
			CHECK(!slot->is_slow || slot->state == SLOT_LOGIN);
		}
		CHECK(host->connections == count[0]);
		CHECK(host->logins == count[SLOT_LOGIN]);
		CHECK(host->resting == count[SLOT_IDLE] + count[SLOT_USED]);
		CHECK(host->is_listed);
		CHECK(host->slow_logins == slow);
	}
	list_for (pool, &db->pools, db_node) {
		size_t idle = 0, slots = 0;
		list_for (pool_host, &pool->balance.pool_hosts, node) {
			idle += pool_host->idle.count;
			slots += pool_host->slot_count;
		}
		CHECK(idle == pool->slots[SLOT_IDLE].count);
		CHECK(slots <= pool_server_count(pool));
	}
}

static void check_counts_of_user(struct fixture *w, const struct user *user)
{
	size_t servers = 0, resting = 0;
	const struct pool *pool;

	list_for (pool, &user->pools, user_node) {
		servers += pool_server_count(pool);
		resting += pool->slots[SLOT_IDLE].count + pool->slots[SLOT_USED].count;
	}
	CHECK(user->server_count == (int)servers && user->resting.count == resting);
}

static bool has_slot_to_give(const struct pool *pool)
{
	return list_is_empty(&pool->part.waiters) &&
	       pool->slots[SLOT_IDLE].count + pool->slots[SLOT_USED].count > 0;
}

static void check_counts_of_process(struct fixture *w)
{
	int servers = 0, limit = process_limit(w);
	const struct pool *pool;

	list_for (pool, &w->c->pool_list, node) {
		servers += (int)pool_server_count(pool) -
			   (int)pool->slots[SLOT_ACTIVE_CANCEL].count;
		CHECK(heap_has(&pool->turn.spare_node) ==
		      (limit > 0 && has_slot_to_give(pool)));
		const struct heap_node *node = &pool->part.rooms[CONN_LIMIT_PROCESS];
		CHECK(!heap_has(node) || node->key == place_in_process(pool));
	}
	CHECK(central_read(&w->c->limit->servers) == servers);
	/* Servers above the limit are closed once they are idle. */
	bool is_stopped = w->c->paused || w->c->suspended;
	CHECK(limit <= 0 || servers <= limit || heap_is_empty(&w->c->spare) ||
	      is_stopped || !w->is_plain);
}

static bool has_evictable(const struct list *resting, bool of_database)
{
	const struct node *n;

	for (n = list_first(resting); n; n = list_next(resting, n)) {
		const struct slot *slot = of_database
					      ? container_of(n, struct slot, db_node)
					      : container_of(n, struct slot, user_node);
		if (list_is_empty(&slot->pool->part.waiters))
			return true;
	}
	return false;
}

/* The pool will be scheduled when it is its turn. */
static bool is_behind_in_process(const struct fixture *w, const struct pool *pool)
{
	const struct heap_node *first = heap_first(&w->c->limit->starving);

	return first && first != &pool->part.rooms[CONN_LIMIT_PROCESS];
}

/* Is there a reason that no server is opened for the waiting clients? */
static bool has_reason_to_wait(struct fixture *w, const struct pool *pool)
{
	const struct database *db = pool->database;
	int size = pool_size(pool);
	int db_limit = scope_max_db_connections(scope_of_database(db));
	int user_limit = scope_max_user_connections(scope_of_user(pool->user));
	uint64_t wake_us = pool->runner->wake_us;

	/* The pool waits in the queue of a full limit and can evict no server. */
	bool is_db_full = db_limit > 0 && db->server_count >= db_limit &&
			  !has_evictable(&db->resting, true);
	bool is_user_full = user_limit > 0 && pool->user->server_count >= user_limit &&
			    !has_evictable(&pool->user->resting, false);
	bool is_process_full =
	    process_limit(w) > 0 &&
	    central_read(&w->c->limit->servers) >= process_limit(w) &&
	    (heap_is_empty(&w->c->spare) ||
		(place_in_process(pool) > w->now &&
		    (wake_us != UINT64_MAX || is_behind_in_process(w, pool))));
	if (is_process_full && heap_has(&pool->part.rooms[CONN_LIMIT_PROCESS]))
		return true;
	if ((is_db_full && heap_has(&pool->part.rooms[CONN_LIMIT_DATABASE])) ||
	    (is_user_full && heap_has(&pool->part.rooms[CONN_LIMIT_USER])))
		return true;
	if (pool->slots[SLOT_LOGIN].count > slow_beside(w, pool) ||
	    leaves_room(w, pool))
		return true;
	/* the monitor's next word is waited for */
	bool knows = hosts_are_judged(db) ? !hosts_has_candidate(pool, w->now)
					  : hosts_has_roles(db);
	if (hosts_are_watched(db) && knows && wake_us <= hosts_due_us(pool))
		return true;
	/* A full pool may have no server of the listed hosts, because the hosts changed
	 * after it looked; it looks again when there is room. */
	uint64_t retry_us =
	    pool->dial_us + scope_server_login_retry(scope_of_pool(pool));
	if (pool->failure.kind && w->now < retry_us && wake_us <= retry_us &&
	    !(pool->failure.kind == FAILURE_HOSTS && hosts_has_candidate(pool, w->now)))
		return true;
	size_t count = pool_server_count(pool) - slow_beside(w, pool);
	if (size && count >= (size_t)size) {
		struct pool_request *first =
		    container_of(list_first(&pool->waiting), struct pool_request, node);
		uint64_t due =
		    first->last_us + scope_reserve_pool_timeout(scope_of_pool(pool));
		size_t most = (size_t)size + (size_t)pool_reserve_size(pool);
		if (pool_server_count(pool) >= most ||
		    !scope_reserve_pool_timeout(scope_of_pool(pool)))
			return true;
		bool is_for_replica =
		    first->kind == REQUEST_REPLICATION ||
		    (pool->part.waiters.count <= pool->slots[SLOT_TESTED].count &&
			list_is_empty(&pool->param_waiters));
		if (is_for_replica)
			return list_is_empty(&pool->slots[SLOT_IDLE]) &&
			       list_is_empty(&pool->slots[SLOT_USED]);
		if (w->now < due)
			return wake_us <= due;
	}
	return false;
}

/* One server is replaced at a time, and the old one does not outlive the new one at
 * rest. */
static void check_replacement(struct fixture *w, const struct pool *pool)
{
	const struct pool_replacement *r = &pool->replacement;

	CHECK(!r->old || (r->old->pool == pool && r->old->state != SLOT_NONE));
	CHECK(!r->fresh || (r->old && r->stage == REPLACE_OPENING &&
			       r->fresh->pool == pool && r->fresh != r->old));
	CHECK(!r->old || r->stage != REPLACE_DUE ||
	      (r->old->state != SLOT_IDLE && r->old->state != SLOT_USED) ||
	      pool_is_paused(pool));
}

static void check_service(struct fixture *w, const struct pool *pool)
{
	const struct slot *slot;

	if (pool->is_killed)
		return;
	check_replacement(w, pool);
	list_for (slot, &pool->slots[SLOT_IDLE], node)
		CHECK(!slot->is_dirty);
	list_for (slot, &pool->slots[SLOT_USED], node)
		CHECK(!slot->is_dirty);
	CHECK(list_is_empty(&pool->param_waiters) || !pool_has_login_params(pool));
	CHECK(list_is_empty(&pool->waiting) || !w->c->refuse_waiting);
	if (pool_is_paused(pool)) {
		CHECK(w->c->suspended || list_is_empty(&pool->slots[SLOT_IDLE]));
		return;
	}
	size_t tested = pool->slots[SLOT_TESTED].count;
	if (!list_is_empty(&pool->part.waiters)) {
		CHECK(list_is_empty(&pool->slots[SLOT_IDLE]));
		CHECK(list_is_empty(&pool->slots[SLOT_USED]) ||
		      tested >= pool->part.waiters.count);
	}
	if (pool->part.waiters.count > tested || !list_is_empty(&pool->param_waiters) ||
	    !list_is_empty(&pool->replicas))
		CHECK(has_reason_to_wait(w, pool));
}

static void check_all(struct fixture *w)
{
	struct database *db;
	struct user *user;
	struct pool *pool;
	size_t at = 0;

	check_slots(w);
	check_asks(w);
	while ((db = map_next(w->c->databases, &at))) {
		check_counts_of_database(w, db);
		check_hosts_of_database(w, db);
	}
	for (at = 0; (user = map_next(w->c->users, &at));)
		check_counts_of_user(w, user);
	check_counts_of_process(w);
	list_for (pool, &w->c->pool_list, node)
		check_service(w, pool);
	/* A pool that was not scheduled has no verdict to give. */
	if (any(w, 4) == 0) {
		w->is_quiet = true;
		list_for (pool, &w->c->pool_list, node) {
			if (runner_of(pool)->wake_us > w->now)
				serve(w, pool);
		}
		serve_scheduled(w);
		w->is_quiet = false;
	}
}

/* ---- events ---- */

static struct client *any_client(struct fixture *w, enum request_state state)
{
	unsigned start = any(w, REQUESTS);

	for (unsigned i = 0; i < REQUESTS; i++) {
		struct client *client = &w->clients[(start + i) % REQUESTS];
		if (client->request.state == state)
			return client;
	}
	return NULL;
}

static struct server *any_server(struct fixture *w, enum slot_state state)
{
	unsigned start = any(w, SLOTS);

	for (unsigned i = 0; i < SLOTS; i++) {
		struct server *server = &w->servers[(start + i) % SLOTS];
		if (server->is_used && server->slot.state == state)
			return server;
	}
	return NULL;
}

static struct pool *any_pool(struct fixture *w)
{
	struct pool *pool;
	size_t n = w->c->pool_list.count ? any(w, (unsigned)w->c->pool_list.count) : 0;

	list_for (pool, &w->c->pool_list, node) {
		if (!n--)
			return pool;
	}
	return NULL;
}

static void client_comes(struct fixture *w)
{
	struct client *client = any_client(w, REQUEST_OUTSIDE);
	bool is_new;

	if (!client)
		return;
	struct database *db =
	    catalog_database(w->c, database_names[any(w, NAMES)], &is_new);
	if (!db)
		return;
	struct user *user = catalog_user(w->c, user_names[any(w, USERS)]);
	database_hold(db);
	database_enter(db, false);
	*client = (struct client){.database = db};
	client->request.is_logged_in = any(w, 4) != 0;
	pool_join(catalog_pool(db, user), &client->request);
}

static void client_goes(struct client *client)
{
	struct pool *pool = client->request.pool;

	pool_part(&client->request);
	pool_free_if_unused(pool);
	database_leave(client->database);
	database_release(client->database);
	*client = (struct client){.database = NULL};
}

static void client_asks(struct fixture *w)
{
	static const enum request_kind kinds[] = {REQUEST_QUERY, REQUEST_QUERY,
	    REQUEST_QUERY, REQUEST_QUERY, REQUEST_QUERY, REQUEST_QUERY, REQUEST_AUTH,
	    REQUEST_PARAMS, REQUEST_REPLICATION};
	struct client *client = any_client(w, REQUEST_RESTING);

	if (!client)
		return;
	client->request.last_us = client->request.query_us = w->now;
	client->turn = ++w->event;
	struct pool *pool = client->request.pool;
	size_t max = (size_t)scope_max_waiting_clients(scope_of_pool(pool));
	struct verdict v = pool_ask(
	    &client->request, kinds[any(w, sizeof(kinds) / sizeof(*kinds))], w->now);
	CHECK(v.kind == VERDICT_GRANT || v.kind == VERDICT_WAIT ||
	      v.kind == VERDICT_REFUSE);
	CHECK(v.kind != VERDICT_WAIT || client->request.state == REQUEST_WAITING);
	CHECK(!v.is_full || (max > 0 && pool->waiting.count >= max));
	/* those for whom a server rests wait for a moment only */
	size_t resting = pool->slots[SLOT_IDLE].count + pool->slots[SLOT_USED].count;
	CHECK(v.kind != VERDICT_WAIT || !max || pool->waiting.count <= max + resting ||
	      (client->request.kind == REQUEST_PARAMS && pool_has_login_params(pool)));
	w->full += v.is_full;
	carry(w, pool, &v);
}

static void server_is_given(struct fixture *w)
{
	struct server *server = any_server(w, SLOT_ACTIVE);

	if (!server || !server->slot.request)
		return;
	struct client *client = client_of(server->slot.request);
	struct pool *pool = server->slot.pool;
	if (any(w, 20) == 0) {
		pool_abandon(&server->slot, w->now);
		CHECK(client->request.state == REQUEST_RESTING);
		server->is_closing = true;
		return;
	}
	if (any(w, 10) == 0)
		server->slot.cancels_in_flight++;
	server->is_lent = false;
	struct verdict v = pool_give(&server->slot, w->now);
	CHECK(client->request.state == REQUEST_RESTING ||
	      (v.kind == VERDICT_GRANT && v.request == &client->request));
	carry(w, pool, &v);
}

/* A client disconnects, and the broker cleans up before it gives the server back. */
static void client_vanishes(struct fixture *w)
{
	struct server *server = any_server(w, SLOT_ACTIVE);

	if (!server || !server->slot.request || server->slot.is_replication)
		return;
	struct client *client = client_of(server->slot.request);
	pool_orphan(&server->slot, w->now);
	CHECK(client->request.state == REQUEST_RESTING && !server->slot.request);
	client_goes(client);
}

static void orphan_is_given(struct fixture *w)
{
	for (int i = 0; i < SLOTS; i++) {
		struct server *server = &w->servers[i];
		if (!server->is_used || server->slot.state != SLOT_ACTIVE ||
		    server->slot.request)
			continue;
		struct pool *pool = server->slot.pool;
		server->is_lent = false;
		server->slot.needs_reset = any(w, 2);
		struct verdict v = pool_give(&server->slot, w->now);
		carry(w, pool, &v);
		return;
	}
}

static enum host_role any_role(struct fixture *w)
{
	return any(w, 3) ? HOST_PRIMARY : HOST_STANDBY;
}

static void role_changes(struct fixture *w)
{
	struct server *server = &w->servers[any(w, SLOTS)];
	struct host_report report = {
	    .role = any_role(w), .is_read_only = !any(w, 8), .is_kept_posted = true};

	if (server->slot.pool_host)
		hosts_learn(&server->slot, &report, w->now);
}

/* The monitor of hosts has looked at the hosts of a database.  all_up: they are up and
 * fit. */
static void monitor_tells(struct fixture *w, const char *database, bool all_up)
{
	struct database *db = catalog_find_database(w->c, database);
	struct host_verdict list[3];

	if (!db || !hosts_are_watched(db))
		return;
	CHECK(db->hosts.count <= 3);
	for (size_t i = 0; i < db->hosts.count; i++) {
		struct host_verdict *v = &list[i];
		memset(v, 0, sizeof(*v));
		v->value.state =
		    all_up || any(w, 2) ? HOST_UP : (enum host_state)any(w, 5);
		v->value.report.role = all_up ? HOST_PRIMARY : any_role(w);
		v->is_fit = all_up || any(w, 4);
		v->may_be_tried = !any(w, 4);
		v->lag_us = v->lag_bytes = UINT64_MAX;
		if (v->value.state != HOST_UP)
			strcpy(v->value.reason, "no luck");
	}
	hosts_follow(db, list, db->hosts.count, w->now);
}

static void server_logs_in(struct fixture *w)
{
	static const char *const states[] = {"28000", "57P03", "3D000"};
	struct server *server = any_server(w, SLOT_LOGIN);

	if (!server)
		return;
	struct pool *pool = server->slot.pool;
	if (any(w, 6) == 0) {
		pool_dial_failed(
		    &server->slot, any(w, 3), "no luck", states[any(w, 3)], w->now);
		CHECK(server->slot.state == SLOT_NONE);
		server->is_closing = true;
		return;
	}
	hosts_learn(&server->slot,
	    &(struct host_report){.role = any_role(w),
		.is_read_only = !any(w, 8),
		.is_kept_posted = any(w, 2)},
	    w->now);
	if (!hosts_is_fit(pool, server->slot.pool_host->host)) {
		pool_dial_failed(&server->slot, DIAL_UNFIT, "unfit", "08P01", w->now);
		server->is_closing = true;
		return;
	}
	if (!server->slot.is_dirty)
		pool_got_login_params(pool);
	struct verdict v = pool_logged_in(&server->slot, w->now);
	carry(w, pool, &v);
}

static void server_is_tested(struct fixture *w)
{
	struct server *server = any_server(w, SLOT_TESTED);

	if (!server)
		return;
	struct pool *pool = server->slot.pool;
	struct verdict v = pool_tested(&server->slot, w->now);
	carry(w, pool, &v);
}

static void cancel_ends(struct fixture *w)
{
	struct server *server = any_server(w, SLOT_BEING_CANCELED);

	if (!server)
		return;
	struct pool *pool = server->slot.pool;
	struct verdict v = pool_cancel_done(&server->slot, w->now);
	carry(w, pool, &v);
}

static void cancel_begins(struct fixture *w)
{
	struct pool *pool = any_pool(w);

	if (pool && pool_may_dial_cancel(pool) && pool_server_count(pool) < 8)
		pool_dialing_cancel(pool, &unused_server(w)->slot, w->now);
}

static void server_is_lost(struct fixture *w)
{
	struct server *server =
	    any_server(w, (enum slot_state)any(w, SLOT_STATE_COUNT));

	if (server)
		close_server(w, server);
}

static void time_goes_by(struct fixture *w)
{
	struct pool *pool, *after;

	w->now += any(w, 8) ? any(w, SECOND) : any(w, 20 * SECOND);
	list_for_safe (pool, after, &w->c->pool_list, node) {
		if (runner_of(pool)->wake_us <= w->now)
			serve(w, pool);
	}
	for (int i = 0; i < SLOTS; i++) {
		struct server *server = &w->servers[i];
		if (!server->is_used || server->review_us > w->now)
			continue;
		struct verdict v = pool_review(&server->slot, w->now);
		server->review_us = UINT64_MAX;
		CHECK(v.kind != VERDICT_REST || v.wake_us > w->now);
		carry(w, server->slot.pool, &v);
	}
}

static void administrator_acts(struct fixture *w)
{
	struct database *db =
	    catalog_find_database(w->c, database_names[any(w, NAMES)]);

	switch (any(w, 10)) {
	case 0:
		w->c->paused = !w->c->paused;
		w->c->refuse_waiting = w->c->paused && any(w, 3) == 0;
		catalog_schedule_all(w->c, NULL);
		break;
	case 1:
		w->c->suspended = !w->c->suspended && any(w, 2);
		catalog_schedule_all(w->c, NULL);
		break;
	case 2:
		if (db) {
			db->paused = !db->paused;
			catalog_schedule_all(w->c, db);
		}
		break;
	case 3:
		catalog_mark_dirty(w->c, any(w, 3) ? db : NULL);
		break;
	case 4:
		if (db)
			catalog_kill(w->c, db, "database removed");
		break;
	default:
		w->now += 100 * (uint64_t)SECOND;
		time_goes_by(w);
		break;
	}
}

/* Ends every PAUSE and SUSPEND. */
static void go_on(struct fixture *w)
{
	w->c->paused = w->c->suspended = w->c->refuse_waiting = false;
	for (int i = 0; i < NAMES; i++) {
		struct database *db = catalog_find_database(w->c, database_names[i]);
		if (db)
			db->paused = false;
	}
	catalog_schedule_all(w->c, NULL);
}

/* The deadlines of servers at rest have moved. */
static void adopt(struct fixture *w, struct config *config)
{
	catalog_adopt(w->c, config, NULL, NULL, NULL);
	for (int k = 0; k < SLOTS; k++) {
		if (w->servers[k].is_used)
			w->servers[k].review_us = w->now;
	}
}

static void adopt_with(struct fixture *w, const char *name, const char *value)
{
	struct config *config = config_with(w->c->config, name, value, NULL);

	CHECK(config);
	adopt(w, config);
	config_unref(&config);
}

static void limit_changes(struct fixture *w)
{
	static const char *const values[] = {"0", "1", "2", "4", "8", "12"};

	adopt_with(w, "max_server_connections", values[any(w, 6)]);
}

static void settings_change(struct fixture *w)
{
	static const char *const changes[][2] = {
	    {"default_pool_size", "1"},
	    {"default_pool_size", "5"},
	    {"max_db_connections", "3"},
	    {"max_db_connections", "0"},
	    {"max_user_connections", "2"},
	    {"max_user_connections", "0"},
	    {"server_round_robin", "1"},
	    {"server_round_robin", "0"},
	    {"server_check_delay", "0"},
	    {"server_check_delay", "5"},
	    {"server_check_query", ""},
	    {"server_check_query", "select 1"},
	    {"server_reset_query_always", "1"},
	    {"server_reset_query_always", "0"},
	    {"min_pool_size", "1"},
	    {"min_pool_size", "0"},
	    {"reserve_pool_size", "1"},
	    {"reserve_pool_timeout", "2"},
	    {"server_login_retry", "3"},
	    {"max_waiting_clients", "2"},
	    {"max_waiting_clients", "0"},
	};
	unsigned i = any(w, sizeof(changes) / sizeof(changes[0]) + 2);

	if (w->is_plain || any(w, 6) == 0)
		limit_changes(w);
	else if (i < sizeof(changes) / sizeof(changes[0]))
		adopt_with(w, changes[i][0], changes[i][1]);
	else
		adopt(w, w->configs[any(w, 2)]);
}

/* Clients and servers of killed pools are closed, as the broker does it. */
static bool bury_one(struct fixture *w)
{
	for (int i = 0; i < SLOTS; i++) {
		struct server *server = &w->servers[i];
		if (server->is_used && runner_of(server->slot.pool)->is_killed) {
			close_server(w, server);
			return true;
		}
	}
	for (int i = 0; i < REQUESTS; i++) {
		struct client *client = &w->clients[i];
		if (client->request.pool && client->request.state != REQUEST_LINKED &&
		    runner_of(client->request.pool)->is_killed) {
			client_goes(client);
			return true;
		}
	}
	return false;
}

static void closing_ends(struct fixture *w)
{
	for (int i = 0; i < SLOTS; i++) {
		if (w->servers[i].is_used && w->servers[i].is_closing)
			close_server(w, &w->servers[i]);
	}
}

static void happen(struct fixture *w)
{
	struct client *client;
	unsigned what = any(w, 100);

	if (what < 15)
		client_comes(w);
	else if (what < 45)
		client_asks(w);
	else if (what < 47)
		client_vanishes(w);
	else if (what < 50)
		orphan_is_given(w);
	else if (what < 65)
		server_is_given(w);
	else if (what < 75)
		server_logs_in(w);
	else if (what < 80)
		server_is_tested(w);
	else if (what < 82)
		cancel_ends(w);
	else if (what < 83)
		cancel_begins(w);
	else if (what < 86)
		server_is_lost(w);
	else if (what < 88 && (client = any_client(w, REQUEST_WAITING)))
		pool_withdraw(&client->request);
	else if (what < 92 && (client = any_client(
				   w, any(w, 2) ? REQUEST_RESTING : REQUEST_WAITING)))
		client_goes(client);
	else if (what < 96)
		time_goes_by(w);
	else if (what < 97)
		any(w, 2) ? administrator_acts(w) : settings_change(w);
	else if (what < 98)
		any(w, 2) ? go_on(w) : role_changes(w);
	else if (what < 99 && any(w, 2))
		monitor_tells(w, database_names[any(w, NAMES)], false);
	else if (what < 99)
		catalog_housekeeping(w->c, w->now, NULL, NULL);
	else
		closing_ends(w);
}

static bool is_anybody_waiting(const struct fixture *w)
{
	const struct pool *pool;

	list_for (pool, &w->c->pool_list, node) {
		if (!list_is_empty(&pool->waiting))
			return true;
	}
	return false;
}

/* Every dial and test succeeds, and every client finishes at once. */
static void all_goes_well(struct fixture *w, struct server *server)
{
	struct pool *pool = server->slot.pool;
	struct verdict v = {.kind = VERDICT_NONE};

	if (server->is_closing) {
		close_server(w, server);
		return;
	}
	if (server->slot.state == SLOT_LOGIN) {
		if (!server->slot.is_dirty)
			pool_got_login_params(pool);
		v = pool_logged_in(&server->slot, w->now);
	} else if (server->slot.state == SLOT_TESTED) {
		v = pool_tested(&server->slot, w->now);
	} else if (server->slot.state == SLOT_ACTIVE) {
		server->is_lent = false;
		v = pool_give(&server->slot, w->now);
	} else if (server->slot.state == SLOT_BEING_CANCELED) {
		v = pool_cancel_done(&server->slot, w->now);
	} else if (server->slot.state == SLOT_ACTIVE_CANCEL) {
		close_server(w, server);
	}
	carry(w, pool, &v);
}

/* No client may wait for ever. */
static void everybody_is_served(struct fixture *w)
{
	/* A client of a pool of size 0 is right to wait. */
	if (process_limit(w) == 0)
		adopt_with(w, "max_server_connections", "1");
	go_on(w);
	for (int i = 0; i < NAMES; i++)
		monitor_tells(w, database_names[i], true);
	for (int i = 0; is_anybody_waiting(w) || w->schedule_count; i++) {
		CHECK(i < 20000);
		serve_scheduled(w);
		while (bury_one(w))
			;
		for (int k = 0; k < SLOTS; k++) {
			if (w->servers[k].is_used)
				all_goes_well(w, &w->servers[k]);
		}
		w->now += SECOND / 20;
		struct pool *pool, *after;
		list_for_safe (pool, after, &w->c->pool_list, node) {
			if (runner_of(pool)->wake_us <= w->now)
				serve(w, pool);
		}
	}
}

static void end(struct fixture *w)
{
	for (int i = 0; i < SLOTS; i++) {
		if (w->servers[i].is_used)
			close_server(w, &w->servers[i]);
	}
	for (int i = 0; i < REQUESTS; i++) {
		if (w->clients[i].request.pool)
			client_goes(&w->clients[i]);
	}
	catalog_free(&w->c);
	CHECK(list_is_empty(&w->mem.slabs));
}

static void run(struct fixture *w, uint64_t seed)
{
	struct config *configs[3] = {w->configs[0], w->configs[1], w->configs[2]};

	*w = (struct fixture){.seed = seed,
	    .random = seed * 0x9e3779b97f4a7c15u + 1,
	    .now = 1000 * (uint64_t)SECOND,
	    .is_plain = seed % 3 == 0,
	    .configs = {configs[0], configs[1], configs[2]}};
	for (int i = 0; i < SLOTS; i++)
		w->servers[i].review_us = UINT64_MAX;
	mem_init(&w->mem);
	w->c = catalog_new(&w->mem);
	w->c->events = &events;
	w->c->events_ctx = w;
	catalog_adopt(w->c, configs[w->is_plain ? 2 : 0], NULL, NULL, NULL);
	for (int i = 0; i < EVENTS; i++) {
		w->event++;
		w->now++;
		happen(w);
		while (bury_one(w))
			;
		/* Sometimes several events happen before the scheduled pools are asked.
		 */
		if (any(w, 3) == 0)
			continue;
		serve_scheduled(w);
		check_all(w);
	}
	everybody_is_served(w);
	end(w);
}

int main(int argc, char **argv)
{
	static const unsigned least = 100;
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
	struct fixture *w = calloc(1, sizeof(*w));
	unsigned grants = 0, dials = 0, evictions = 0, refusals = 0, full = 0;
	unsigned kept = 0, pressed = 0, replaced = 0;

	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	w->configs[0] = prop_config(full_ini);
	w->configs[1] = prop_config(other_ini);
	w->configs[2] = prop_config(plain_ini);
	for (uint64_t i = 0; i < RUNS; i++) {
		run(w, seed + i);
		grants += w->grants;
		dials += w->dials;
		evictions += w->evictions;
		refusals += w->refusals;
		full += w->full;
		kept += w->kept;
		pressed += w->pressed;
		replaced += w->replaced;
	}
	printf(
	    "%u grants, %u dials, %u evictions, %u refusals, %u by a full queue\n"
	    "%u pools kept their least size, %u gave of it, %u servers were replaced\n",
	    grants, dials, evictions, refusals, full, kept, pressed, replaced);
	config_unref(&w->configs[0]);
	config_unref(&w->configs[1]);
	config_unref(&w->configs[2]);
	free(w);
	/* The test proves something only if enough has happened. */
	bool is_proven = grants > least && dials > least && evictions && refusals &&
			 full && kept && pressed && replaced;
	return is_proven ? 0 : 1;
}
