/*
 * What is true between two events, at any number of workers: what is counted is what is
 * there, no limit is exceeded, and lists and links agree.
 */
#include "model.h"

/* Whether it counts against the limits: it is being opened, open, or on its way. */
static bool is_counted(const struct server *s)
{
	return s->is_used && !s->is_closing;
}

struct sums count_servers(void)
{
	struct sums sums = {0};

	for (int i = 0; i < w.servers_used; i++) {
		const struct server *s = &w.servers[i];
		if (!is_counted(s))
			continue;
		sums.pools[s->pool]++;
		sums.dbs[s->pool / USERS]++;
		sums.users[s->pool % USERS]++;
		/* cancel requests need no room under this limit */
		sums.process += s->slot.state != SLOT_ACTIVE_CANCEL;
	}
	return sums;
}

struct limits limits_of(const struct pool *pool)
{
	return (struct limits){
	    .size = pool_size(pool),
	    .reserve = pool_reserve_size(pool),
	    .least = pool_min_size(pool),
	    .db = scope_max_db_connections(scope_of_database(pool->database)),
	    .user = scope_max_user_connections(scope_of_user(pool->user)),
	    .process = pool->database->catalog->config->settings.max_server_connections,
	};
}

bool is_within(int count, int limit)
{
	return limit <= 0 || count <= limit;
}

size_t slow_beside(const struct pool *pool)
{
	return hosts_has_candidate(pool, w.now) ? pool->balance.slow_logins : 0;
}

/* ---- limits ---- */

/* Administrators change limits, and cancel requests need no room. */
static void check_sum(int count, int truth, int limit)
{
	CHECK(count == truth);
	CHECK(w.has_administrator || is_within(truth, limit ? limit + w.cancels : 0));
}

static void check_whole(const struct pool *pool, const struct sums *sums)
{
	const struct limits l = limits_of(pool);
	const struct central_pool *whole = pool->part.whole;
	unsigned number = number_of(pool);
	struct central_limit *const *limits = whole->limits;

	check_sum(whole->servers, sums->pools[number], l.size);
	check_sum(
	    limits[CONN_LIMIT_DATABASE]->servers, sums->dbs[number / USERS], l.db);
	check_sum(
	    limits[CONN_LIMIT_USER]->servers, sums->users[number % USERS], l.user);
	check_sum(limits[CONN_LIMIT_PROCESS]->servers, sums->process, l.process);
}

void check_limits(void)
{
	const struct sums sums = count_servers();

	for (unsigned i = 0; i < w.workers; i++) {
		const struct pool *pool;
		list_for (pool, &w.worker[i].c->pool_list, node)
			check_whole(pool, &sums);
	}
}

void check_exceeded(void)
{
	const struct pool *pool;

	if (w.has_administrator)
		return;
	list_for (pool, &w.worker[0].c->pool_list, node) {
		if (!pool->part.whole) /* it is just being made */
			continue;
		const struct limits l = limits_of(pool);
		struct central_limit *const *limits = pool->part.whole->limits;
		CHECK(is_within(limits[CONN_LIMIT_PROCESS]->servers, l.process));
		CHECK(
		    w.cancels || is_within(limits[CONN_LIMIT_DATABASE]->servers, l.db));
		CHECK(w.cancels || is_within(limits[CONN_LIMIT_USER]->servers, l.user));
	}
}

/* ---- pools ---- */

static size_t resting_count(const struct pool *pool)
{
	return pool->slots[SLOT_IDLE].count + pool->slots[SLOT_USED].count;
}

/* Compares what others see of the part of one worker with the facts. */
static void check_part(const struct worker *worker, const struct pool *pool)
{
	const struct central_part *p = &pool->part;
	const struct central_part *listed =
	    p->whole->places[number_of_worker(worker)].part;

	CHECK(pool->is_killed ? listed != p : listed == p);
	CHECK(p->connected == (int)pool_connected_count(pool));
	CHECK(is_alone() || p->resting == (int)resting_count(pool));
	CHECK(p->clients == (int)(pool->clients.count + pool->waiting.count));
	CHECK(p->wants_params == !list_is_empty(&pool->param_waiters));
	CHECK(pool->is_killed || pool->is_scheduled || list_is_empty(&pool->waiting) ||
	      p->is_closed == pool_is_paused(pool));
	CHECK(pool->waiting.count == pool->part.waiters.count +
					 pool->param_waiters.count +
					 pool->replicas.count);
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		CHECK(heap_has(&p->rooms[kind]) == (p->wanted >> kind & 1));
}

/* Those who wait and the servers that are connected or on their way, of a name. */
static void check_totals(const struct central_pool *whole, unsigned number)
{
	int waiting = 0, queued = 0, connected = 0, arriving = 0, on_the_way = 0;

	for (unsigned i = 0; i < w.workers; i++) {
		const struct pool *pool;
		arriving += whole->places[i].arriving;
		list_for (pool, &w.worker[i].c->pool_list, node) {
			if (pool->part.whole != whole)
				continue;
			connected += pool->part.connected;
			if (pool->is_killed)
				continue;
			waiting += (int)pool->part.waiters.count;
			queued += (int)pool->waiting.count;
		}
	}
	for (int i = 0; i < w.servers_used; i++)
		on_the_way += w.servers[i].is_used && w.servers[i].pool == number &&
			      (w.servers[i].is_handed || w.servers[i].whole);
	CHECK(whole->waiting == waiting && whole->queued == queued);
	CHECK(arriving == on_the_way && whole->connected == connected + on_the_way);
}

static void check_slots_of(const struct pool *pool, size_t *sum)
{
	for (int state = 0; state < SLOT_STATE_COUNT; state++) {
		const struct slot *slot;
		size_t seen = 0;
		list_for (slot, &pool->slots[state], node) {
			CHECK(slot->pool == pool && (int)slot->state == state);
			seen++;
		}
		CHECK(seen == pool->slots[state].count);
		*sum += seen;
	}
}

static void check_pools(const struct worker *worker)
{
	size_t slots = 0, servers = 0, resting = 0, waiting = 0;
	const struct pool *pool;

	list_for (pool, &worker->c->pool_list, node) {
		check_part(worker, pool);
		check_totals(pool->part.whole, number_of(pool));
		check_slots_of(pool, &slots);
		resting += pool->clients.count;
		waiting += pool->waiting.count;
	}
	for (int i = 0; i < w.servers_used; i++)
		servers += w.servers[i].is_used && !w.servers[i].whole &&
			   w.servers[i].worker == number_of_worker(worker);
	for (unsigned i = 0; i < w.clients; i++) {
		const struct client *c = &w.client[i];
		if (!c->request.pool || c->worker != number_of_worker(worker))
			continue;
		bool is_waiting = c->request.state == REQUEST_WAITING;
		waiting -= is_waiting;
		resting -= !is_waiting;
	}
	CHECK(servers == slots && !resting && !waiting);
}

/* ---- databases and users ---- */

static void check_database(const struct worker *worker, const struct database *db)
{
	size_t servers = 0, resting = 0;
	const struct pool *pool;
	const struct slot *slot;
	uint64_t last = 0;
	int clients = 0;

	list_for (pool, &db->pools, db_node) {
		servers += pool_server_count(pool);
		resting += resting_count(pool);
	}
	for (unsigned i = 0; i < w.clients; i++)
		clients += w.client[i].database == db;
	CHECK(db->server_count == (int)servers && db->client_count == clients);
	CHECK(db->resting.count == resting);
	list_for (slot, &db->resting, db_node) {
		CHECK(slot->state == SLOT_IDLE || slot->state == SLOT_USED);
		CHECK(!is_alone() || slot->rested_us >= last);
		last = slot->rested_us;
	}
	CHECK((db->idle_since_us != 0) == (db->is_auto && !clients && !servers));
	CHECK(db->catalog == worker->c);
}

static void check_user(const struct user *user)
{
	size_t servers = 0, resting = 0;
	const struct pool *pool;

	list_for (pool, &user->pools, user_node) {
		servers += pool_server_count(pool);
		resting += resting_count(pool);
	}
	CHECK(user->server_count == (int)servers && user->resting.count == resting);
}

/* ---- all ---- */

static void check_links(void)
{
	for (unsigned i = 0; i < w.clients; i++) {
		const struct client *c = &w.client[i];
		CHECK(
		    (c->request.state == REQUEST_LINKED) == (c->request.slot != NULL));
		CHECK(!c->request.slot || c->request.slot->request == &c->request);
	}
	for (int i = 0; i < w.servers_used; i++) {
		const struct server *s = &w.servers[i];
		CHECK(!s->slot.request || s->slot.request->slot == &s->slot);
		CHECK(!s->slot.request || s->slot.state == SLOT_ACTIVE ||
		      s->slot.is_replication);
		CHECK(!s->is_used || !s->is_closing || s->slot.state == SLOT_NONE);
	}
}

void check_all(void)
{
	check_limits();
	check_links();
	for (unsigned i = 0; i < w.workers; i++) {
		const struct worker *worker = &w.worker[i];
		const struct database *db;
		const struct user *user;
		size_t at = 0;
		check_pools(worker);
		while ((db = map_next(worker->c->databases, &at)))
			check_database(worker, db);
		for (at = 0; (user = map_next(worker->c->users, &at));)
			check_user(user);
	}
}
