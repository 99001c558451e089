/*
 * A broker that only carries out verdicts, and checks each of them: no server is lent
 * twice, to a pool that is paused or killed, or to a client while another one comes
 * first; none is opened beyond a limit.
 */
#include <string.h>

#include "model.h"

/* A server goes to another worker whose client has waited longer by so much. */
enum { PREFERENCE_US = 5000 };

/* ---- the events of the catalog ---- */

unsigned number_of(const struct pool *pool)
{
	unsigned d = 0, u = 0;

	while (strcmp(database_names[d], pool->database->name) != 0)
		d++;
	while (strcmp(user_names[u], pool->user->name) != 0)
		u++;
	return d * USERS + u;
}

struct runner *runner_of(struct pool *pool)
{
	if (!pool->runner) {
		pool->runner = calloc(1, sizeof(struct runner));
		pool->runner->wake_us = UINT64_MAX;
	}
	return pool->runner;
}

static void on_schedule(void *ctx, struct pool *pool)
{
	struct worker *worker = ctx;

	if (pool->is_scheduled)
		return;
	CHECK(worker->schedule_count < SCHEDULED);
	pool->is_scheduled = true;
	worker->scheduled[worker->schedule_count++] = pool;
}

static void on_kill(void *ctx, struct pool *pool, const char *reason)
{
	(void)ctx, (void)reason;
	CHECK(pool->is_killed && w.has_administrator);
	w.counts.killed++;
}

static void on_freed(void *ctx, struct pool *pool)
{
	struct worker *worker = ctx;
	size_t kept = 0;

	for (size_t i = 0; i < worker->schedule_count; i++)
		if (worker->scheduled[i] != pool)
			worker->scheduled[kept++] = worker->scheduled[i];
	worker->schedule_count = kept;
	free(pool->runner);
	pool->runner = NULL;
}

/* The monitor looks when it likes. */
static void on_hint(
    void *ctx, const struct host *host, const struct host_report *report)
{
	(void)ctx, (void)host, (void)report;
}

const struct catalog_events model_events = {
    .schedule = on_schedule, .kill = on_kill, .freed = on_freed, .hint = on_hint};

/* ---- servers ---- */

struct server *unused_server(void)
{
	int i = 0;

	while (i < SERVERS && w.servers[i].is_used)
		i++;
	CHECK(i < SERVERS);
	w.servers_used = i < w.servers_used ? w.servers_used : i + 1;
	w.servers[i] = (struct server){.is_used = true, .review_us = UINT64_MAX};
	return &w.servers[i];
}

void close_server(struct server *s)
{
	struct pool *pool = s->slot.pool;
	bool is_cancel = s->slot.state == SLOT_ACTIVE_CANCEL;

	s->is_closing = true;
	pool_gone(&s->slot, w.now);
	CHECK(!s->slot.pool && !s->slot.request);
	pool_gone(&s->slot, w.now);
	w.cancels -= is_cancel;
	s->is_used = s->is_handed = false;
	pool_free_if_unused(pool);
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

/* The server is already counted, but not yet in the pool. */
static void check_dial(const struct pool *pool, const struct verdict *v)
{
	const struct limits l = limits_of(pool);
	const struct sums sums = count_servers();
	unsigned number = number_of(pool);
	size_t slow = slow_beside(pool);
	int count = sums.pools[number] - (int)slow;
	bool has_other =
	    pool->failure.kind == FAILURE_HOSTS && hosts_has_candidate(pool, w.now);
	uint64_t retry_us = scope_server_login_retry(scope_of_pool(pool));

	if (hosts_are_watched(pool->database) && retry_us > SECOND)
		retry_us = SECOND;
	CHECK(!pool_is_paused(pool) && !pool->is_killed);
	CHECK(pool->slots[SLOT_LOGIN].count == slow || may_open_beside(pool));
	CHECK(!pool->failure.kind || has_other || w.now >= pool->dial_us + retry_us);
	w.counts.reserves += v->is_reserve;
	w.counts.refills += list_is_empty(&pool->waiting);
	/* others may be about to open or close some */
	if (w.is_interrupted)
		return;
	CHECK(is_within(sums.dbs[number / USERS], l.db));
	CHECK(is_within(sums.users[number % USERS], l.user));
	CHECK(is_within(sums.process, l.process));
	CHECK(!l.size || count <= l.size + (v->is_reserve ? l.reserve : 0));
	/* one may be opened to see whether another attempt fails as well, and some are
	 * for one host of several, or take the place of an old one */
	CHECK(is_alone() || !list_is_empty(&pool->waiting) || count <= l.least ||
	      pool->failure.kind);
}

static void dial(struct worker *worker, struct pool *pool, const struct verdict *v)
{
	struct server *s = unused_server();

	CHECK(v->is_replication == (v->request != NULL));
	CHECK(!v->request || (v->request->kind == REQUEST_REPLICATION &&
				 v->request->state == REQUEST_WAITING));
	s->slot.is_replication = v->is_replication;
	s->slot.request = v->request;
	w.counts.replicas += v->is_replication;
	s->worker = number_of_worker(worker);
	s->pool = number_of(pool);
	s->born_round = worker->round;
	check_dial(pool, v);
	pool_dialing(pool, &s->slot, w.now);
	w.counts.dials++;
}

/* ---- order ---- */

/* Has this client of another worker waited so long that it comes before one that waits
 * since then, as far as its worker knows? */
static bool comes_before(const struct client *c, uint64_t since_us)
{
	const struct pool_request *request = &c->request;

	return request->queued_us + PREFERENCE_US < since_us &&
	       !request->pool->is_killed && !request->pool->part.is_closed &&
	       !is_unresponsive(NULL, c->worker) &&
	       !request->pool->part.whole->places[c->worker].arriving;
}

/* Clients of a worker are served in order, and those of others in order but for the
 * constant.  Before the lock of this event others may have begun to wait, or ceased
 * to. */
static void check_order(const struct client *served)
{
	const struct pool *pool = served->request.pool;
	uint64_t since_us =
	    served->request.queued_us ? served->request.queued_us : w.now;
	bool is_exact = !w.is_interrupted && !central_is_frozen(w.central);

	for (unsigned i = 0; i < w.clients; i++) {
		const struct client *c = &w.client[i];
		const struct pool_request *r = &c->request;
		if (r->state != REQUEST_WAITING ||
		    (r->kind != REQUEST_QUERY && r->kind != REQUEST_AUTH))
			continue;
		if (r->pool == pool)
			CHECK(c->turn > served->turn);
		else if (is_exact && number_of(r->pool) == number_of(pool))
			CHECK(!comes_before(c, since_us));
	}
}

static void check_grant(const struct verdict *v)
{
	struct server *s = server_of(v->slot);
	struct client *c = client_of(v->request);
	struct pool *pool = v->slot->pool;

	CHECK(s->is_used && !s->is_handed && !s->is_closing && s->worker == c->worker);
	CHECK(v->slot->request == v->request && v->request->slot == v->slot);
	CHECK(v->slot->state == SLOT_ACTIVE && v->request->state == REQUEST_LINKED);
	CHECK(v->request->pool == pool && !pool->is_killed);
	CHECK(!v->slot->dirty && !v->slot->cancels_in_flight);
	CHECK(s->born_round >= w.worker[s->worker].renewed[s->pool / USERS]);
	if (v->slot->is_replication) {
		CHECK(c->request.kind == REQUEST_REPLICATION);
	} else {
		CHECK(!pool_is_paused(pool) && !s->is_lent);
		CHECK(c->request.kind == REQUEST_QUERY ||
		      c->request.kind == REQUEST_AUTH);
		check_order(c);
	}
	s->is_lent = true;
	s->review_us = UINT64_MAX;
	w.counts.grants++;
}

/* ---- verdicts ---- */

static void retire(const struct verdict *v)
{
	struct server *s = server_of(v->slot);
	const struct pool *pool = v->slot->pool;
	bool is_evicted = strcmp(v->text, "evicted") == 0;

	CHECK(v->text && v->slot->state == SLOT_NONE && pool);
	CHECK(!s->is_lent || v->slot->is_replication || !v->slot->request);
	/* the one that took its place is there, unless there was no room */
	CHECK(strcmp(v->text, "server lifetime over") != 0 || !pool->replacement.old);
	w.counts.evictions += is_evicted;
	w.counts.surplus += strncmp(v->text, "too many servers", 16) == 0;
	if (is_evicted && is_alone())
		check_eviction(pool);
	s->is_closing = true;
	s->review_us = UINT64_MAX;
	if (any(2))
		close_server(s);
}

void carry(struct worker *worker, struct pool *pool, const struct verdict *v)
{
	struct server *s = v->slot ? server_of(v->slot) : NULL;

	switch (v->kind) {
	case VERDICT_GRANT:
		check_grant(v);
		break;
	case VERDICT_DIAL:
		dial(worker, pool, v);
		break;
	case VERDICT_RETIRE:
		retire(v);
		break;
	case VERDICT_HAND:
		CHECK(v->site < w.workers && v->site != number_of_worker(worker));
		CHECK(!v->slot->request && v->slot->state == SLOT_NONE);
		CHECK(!v->slot->dirty && !v->slot->cancels_in_flight);
		s->is_handed = true;
		s->handed_round = worker->round;
		s->to = v->site;
		break;
	case VERDICT_ADMIT:
		CHECK(v->request->kind == REQUEST_PARAMS &&
		      v->request->state == REQUEST_RESTING);
		CHECK(w.is_interrupted || pool_has_login_params(pool));
		v->request->is_logged_in = true;
		break;
	case VERDICT_CHECK:
		CHECK(w.has_check);
		w.counts.checks++;
		__attribute__((fallthrough));
	case VERDICT_RESET:
		CHECK(v->slot->state == SLOT_TESTED && !v->slot->dirty);
		break;
	case VERDICT_PREPARE:
		CHECK(v->slot->state == SLOT_TESTED && !v->slot->dirty);
		CHECK(v->model && v->model->pool == pool && v->model->state);
		w.counts.replaced++;
		break;
	case VERDICT_PARK:
		CHECK(v->slot->state == SLOT_BEING_CANCELED);
		w.counts.parks++;
		break;
	case VERDICT_REFUSE:
		CHECK(v->text && *v->text && strlen(v->sqlstate) == 5);
		CHECK(v->request->state == REQUEST_RESTING);
		w.counts.refusals++;
		break;
	case VERDICT_REST:
		CHECK(v->slot->state == SLOT_IDLE || v->slot->state == SLOT_USED);
		s->review_us = v->wake_us;
		break;
	case VERDICT_WAIT:
	case VERDICT_NONE:
		break;
	}
}

void serve(struct worker *worker, struct pool *pool)
{
	for (unsigned steps = 0;; steps++) {
		CHECK(steps < 2 * (CLIENTS + SERVERS));
		bool is_behind = w.is_quiet && leaves_room(pool);
		unsigned wanted = pool->part.wanted;
		struct verdict v = pool_next(pool, w.now);
		/* carrying out may free a pool that was killed */
		bool is_killed = pool->is_killed && v.kind == VERDICT_RETIRE;
		if (v.kind == VERDICT_NONE) {
			runner_of(pool)->wake_us = v.wake_us;
			pool->runner->looks_soon = looks_soon(pool, v.wake_us);
			CHECK(v.wake_us > w.now || w.is_interrupted);
			/* Whether another login may begin beside one depends on whose
			 * turn a host is, which changes with other pools. */
			if (pool->slots[SLOT_LOGIN].count &&
			    pool->part.wanted != wanted)
				w.is_quiet = false;
			return;
		}
		/* Whether an old one is replaced first depends on room that other pools
		 * take. */
		bool is_old = v.kind == VERDICT_RETIRE &&
			      strcmp(v.text, "server lifetime over") == 0;
		CHECK(!w.is_quiet || is_behind || is_old || is_refill(pool, &v));
		/* A closed server may give other pools a verdict to carry out. */
		if (v.kind == VERDICT_RETIRE)
			w.is_quiet = false;
		carry(worker, pool, &v);
		if (!w.is_interrupted)
			check_limits();
		if (is_killed)
			return;
	}
}

void serve_scheduled(struct worker *worker, size_t i)
{
	struct pool *pool = worker->scheduled[i];

	if (!may_enter(worker))
		return;
	memmove(&worker->scheduled[i], &worker->scheduled[i + 1],
	    (--worker->schedule_count - i) * sizeof(worker->scheduled[0]));
	pool->is_scheduled = false;
	serve(worker, pool);
	leave(worker);
}

void serve_woken(struct worker *worker)
{
	struct pool *pool, *after;

	if (!may_enter(worker))
		return;
	list_for_safe (pool, after, &worker->c->pool_list, node)
		if (runner_of(pool)->wake_us <= w.now)
			serve(worker, pool);
	for (int i = 0; i < w.servers_used; i++) {
		struct server *s = &w.servers[i];
		if (!s->is_used || s->review_us > w.now || !s->slot.pool ||
		    s->worker != number_of_worker(worker))
			continue;
		s->review_us = UINT64_MAX;
		struct verdict v = pool_review(&s->slot, w.now);
		CHECK(v.kind != VERDICT_REST || v.wake_us > w.now);
		carry(worker, s->slot.pool, &v);
	}
	leave(worker);
}
