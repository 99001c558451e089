/*
 * What is true with one worker when every scheduled pool has been asked: no other pool
 * has a verdict to give, no client waits without a reason, and what is given up for
 * others is owed to them.
 */
#include "base/map.h"
#include "model.h"

/* Under max_server_connections, pools with a server wait this much longer. */
enum { PATIENCE = 5 * SECOND };

static const struct catalog *catalog(void)
{
	return w.worker[0].c;
}

static int process_limit(void)
{
	return catalog()->config->settings.max_server_connections;
}

/* ---- who comes first ---- */

static const struct pool_request *first_request(const struct pool *pool)
{
	struct node *first = list_first(&pool->waiting);

	return first ? container_of(first, struct pool_request, node) : NULL;
}

uint64_t first_wait(const struct pool *pool)
{
	const struct pool_request *first = first_request(pool);

	return first ? first->queued_us : UINT64_MAX;
}

static uint64_t place_in_process(const struct pool *pool)
{
	const struct pool_request *first = first_request(pool);

	if (!first)
		return UINT64_MAX;
	bool has_nothing =
	    !pool_connected_count(pool) || first->kind == REQUEST_REPLICATION;
	return first->queued_us + (has_nothing ? 0 : PATIENCE);
}

/* Another pool has a client that has waited longer than the first one here that could
 * have the server. */
static bool is_others_turn(const struct pool *pool)
{
	struct node *first = list_first(&pool->part.waiters);
	uint64_t own_us =
	    container_of(first, struct pool_request, kind_node)->queued_us;
	uint64_t place_us = own_us + (pool_connected_count(pool) ? PATIENCE : 0);
	const struct pool *other;

	list_for (other, &catalog()->pool_list, node) {
		bool is_related =
		    other->database == pool->database || other->user == pool->user;
		if (other == pool)
			continue;
		if (is_related && first_wait(other) < own_us)
			return true;
		if (process_limit() && place_in_process(other) < place_us)
			return true;
	}
	return false;
}

static bool is_anybody_pressing(void)
{
	const struct pool *pool;

	list_for (pool, &catalog()->pool_list, node) {
		if (place_in_process(pool) <= w.now)
			return true;
	}
	return false;
}

/* A pool keeps min_pool_size servers, unless another has none or waited too long. */
static void check_least_size(const struct pool *pool)
{
	bool is_wanted = !list_is_empty(&pool->clients) ||
			 !list_is_empty(&pool->waiting) ||
			 pool->user == pool->database->forced_user;

	if (!w.is_plain || !is_wanted)
		return;
	if (pool_connected_count(pool) >= (size_t)pool_min_size(pool)) {
		w.counts.kept++;
		return;
	}
	CHECK(!list_is_empty(&pool->replicas) || is_anybody_pressing());
	w.counts.pressed++;
}

void check_eviction(const struct pool *pool)
{
	CHECK(list_is_empty(&pool->part.waiters) || !list_is_empty(&pool->replicas) ||
	      is_others_turn(pool));
	check_least_size(pool);
}

/* ---- pools that have a verdict to give all the same ---- */

/* Whether another pool's client has waited longer for room under this limit. */
static bool has_elder(const struct pool *pool, enum conn_limit kind)
{
	const struct heap_node *first =
	    heap_first(&pool->part.whole->limits[kind]->starving);

	return first &&
	       first->key < (kind == CONN_LIMIT_PROCESS ? place_in_process(pool)
							: first_wait(pool));
}

/* It may wait for room under other limits as well; and those behind it look from time
 * to time whether it is used. */
bool leaves_room(const struct pool *pool)
{
	if (list_is_empty(&pool->waiting) || !pool->runner->looks_soon)
		return false;
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		if (has_elder(pool, kind) &&
		    (pool->turn.yielded_us || heap_has(&pool->part.rooms[kind])))
			return true;
	return false;
}

/* It looks again after a tenth of the time that its first client has waited. */
bool looks_soon(const struct pool *pool, uint64_t wake_us)
{
	uint64_t longest_us =
	    list_is_empty(&pool->waiting) ? 0 : (w.now - first_wait(pool)) / 10;

	return wake_us <= w.now + (longest_us < COURTESY ? COURTESY : longest_us);
}

bool is_refill(const struct pool *pool, const struct verdict *v)
{
	bool is_taking = v->kind == VERDICT_RETIRE && strcmp(v->text, "evicted") == 0;

	if (v->kind == VERDICT_DIAL && pool->balance.claimed == hosts_wanted(pool))
		return true;
	if (v->kind != VERDICT_DIAL && !is_taking)
		return false;
	/* whose turn it is changes with other pools, and the login under way wakes this
	 * one */
	if (pool->slots[SLOT_LOGIN].count > slow_beside(pool))
		return true;
	/* no client waits, or only for a server that is being tested */
	return pool->waiting.count <= pool->slots[SLOT_TESTED].count &&
	       pool->runner->wake_us != UINT64_MAX;
}

/* ---- reasons to wait ---- */

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

/* It stands in the queue of a full limit and can evict no server. */
static bool lacks_room(const struct pool *pool)
{
	const struct limits l = limits_of(pool);
	const struct database *db = pool->database;
	const struct heap_node *rooms = pool->part.rooms;
	const struct heap_node *first = heap_first(&catalog()->limit->starving);
	bool is_behind = first && first != &rooms[CONN_LIMIT_PROCESS];
	bool is_process_full =
	    l.process > 0 && central_read(&catalog()->limit->servers) >= l.process &&
	    (heap_is_empty(&catalog()->spare) ||
		(place_in_process(pool) > w.now &&
		    (pool->runner->wake_us != UINT64_MAX || is_behind)));
	bool is_db_full =
	    l.db > 0 && db->server_count >= l.db && !has_evictable(&db->resting, true);
	bool is_user_full = l.user > 0 && pool->user->server_count >= l.user &&
			    !has_evictable(&pool->user->resting, false);

	return (is_process_full && heap_has(&rooms[CONN_LIMIT_PROCESS])) ||
	       (is_db_full && heap_has(&rooms[CONN_LIMIT_DATABASE])) ||
	       (is_user_full && heap_has(&rooms[CONN_LIMIT_USER]));
}

/* The next attempt or the monitor's next word is waited for. */
static bool awaits_time(const struct pool *pool)
{
	const struct database *db = pool->database;
	uint64_t wake_us = pool->runner->wake_us;
	uint64_t retry_us =
	    pool->dial_us + scope_server_login_retry(scope_of_pool(pool));
	bool knows = hosts_are_judged(db) ? !hosts_has_candidate(pool, w.now)
					  : hosts_has_roles(db);

	if (hosts_are_watched(db) && knows && wake_us <= hosts_due_us(pool))
		return true;
	/* A full pool may have no server of the listed hosts, because the hosts changed
	 * after it looked; it looks again when there is room. */
	return pool->failure.kind && w.now < retry_us && wake_us <= retry_us &&
	       !(pool->failure.kind == FAILURE_HOSTS &&
		   hosts_has_candidate(pool, w.now));
}

/* pool_size is reached, and the reserve is not for these clients, or not yet. */
static bool is_full(const struct pool *pool)
{
	const struct limits l = limits_of(pool);
	const struct pool_request *first = first_request(pool);
	uint64_t timeout = scope_reserve_pool_timeout(scope_of_pool(pool));
	int count = (int)(pool_server_count(pool) - slow_beside(pool));

	if (!l.size || count < l.size)
		return false;
	if ((int)pool_server_count(pool) >= l.size + l.reserve || !timeout)
		return true;
	if (first->kind == REQUEST_REPLICATION ||
	    (pool->part.waiters.count <= pool->slots[SLOT_TESTED].count &&
		list_is_empty(&pool->param_waiters)))
		return list_is_empty(&pool->slots[SLOT_IDLE]) &&
		       list_is_empty(&pool->slots[SLOT_USED]);
	return w.now < first->last_us + timeout &&
	       pool->runner->wake_us <= first->last_us + timeout;
}

/* One server is replaced at a time, and the old one does not outlive the new one at
 * rest. */
static void check_replacement(const struct pool *pool)
{
	const struct pool_replacement *r = &pool->replacement;

	CHECK(!r->old || (r->old->pool == pool && r->old->state != SLOT_NONE));
	CHECK(!r->fresh || (r->old && r->stage == REPLACE_OPENING &&
			       r->fresh->pool == pool && r->fresh != r->old));
	CHECK(!r->old || r->stage != REPLACE_DUE ||
	      (r->old->state != SLOT_IDLE && r->old->state != SLOT_USED) ||
	      pool_is_paused(pool));
}

static void check_service(const struct pool *pool)
{
	const struct slot *slot;

	if (pool->is_killed)
		return;
	check_replacement(pool);
	list_for (slot, &pool->slots[SLOT_IDLE], node)
		CHECK(!slot->dirty);
	list_for (slot, &pool->slots[SLOT_USED], node)
		CHECK(!slot->dirty);
	CHECK(list_is_empty(&pool->param_waiters) || !pool_has_login_params(pool));
	CHECK(list_is_empty(&pool->waiting) || !catalog()->refuse_waiting);
	if (pool_is_paused(pool)) {
		CHECK(catalog()->suspended || list_is_empty(&pool->slots[SLOT_IDLE]));
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
		CHECK(lacks_room(pool) || awaits_time(pool) || is_full(pool) ||
		      pool->slots[SLOT_LOGIN].count > slow_beside(pool) ||
		      leaves_room(pool));
}

/* ---- limits and hosts ---- */

static void check_process(void)
{
	const struct catalog *c = catalog();
	int limit = process_limit();
	const struct pool *pool;

	list_for (pool, &c->pool_list, node) {
		const struct heap_node *rooms = pool->part.rooms;
		bool has_spare =
		    list_is_empty(&pool->part.waiters) &&
		    pool->slots[SLOT_IDLE].count + pool->slots[SLOT_USED].count > 0;
		CHECK(heap_has(&pool->turn.spare_node) == (limit > 0 && has_spare));
		CHECK(!heap_has(&rooms[CONN_LIMIT_PROCESS]) ||
		      rooms[CONN_LIMIT_PROCESS].key == place_in_process(pool));
		CHECK(!heap_has(&rooms[CONN_LIMIT_DATABASE]) ||
		      rooms[CONN_LIMIT_DATABASE].key == first_wait(pool));
		CHECK(!heap_has(&rooms[CONN_LIMIT_DATABASE]) || pool->waiting.count);
	}
	/* Servers above the limit are closed once they are idle. */
	CHECK(is_within(c->limit->servers, limit) || heap_is_empty(&c->spare) ||
	      c->paused || c->suspended || !w.is_plain);
}

static void check_host(const struct host *host)
{
	size_t count[SLOT_STATE_COUNT] = {0}, slow = 0;

	for (int i = 0; i < w.servers_used; i++) {
		const struct slot *slot = &w.servers[i].slot;
		if (!w.servers[i].is_used || !slot->pool_host ||
		    slot->pool_host->host != host)
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

static void check_hosts(const struct database *db)
{
	const struct pool_host *pool_host;
	const struct pool *pool;

	for (size_t i = 0; i < db->hosts.count; i++)
		check_host(db->hosts.list[i]);
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

void check_alone(void)
{
	struct worker *worker = &w.worker[0];
	const struct database *db;
	struct pool *pool;
	size_t at = 0;

	while ((db = map_next(worker->c->databases, &at)))
		check_hosts(db);
	check_process();
	list_for (pool, &worker->c->pool_list, node)
		check_service(pool);
	if (any(4))
		return;
	/* A pool that was not scheduled has no verdict to give. */
	w.is_quiet = true;
	list_for (pool, &worker->c->pool_list, node) {
		if (runner_of(pool)->wake_us > w.now)
			serve(worker, pool);
	}
	while (worker->schedule_count)
		serve_scheduled(worker, 0);
	w.is_quiet = false;
}
