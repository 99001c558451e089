/*
 * What clients, servers, cancel requests and hosts do, at random.
 */
#include "model.h"

/* ---- clients ---- */

void client_asks(struct client *c, enum request_kind kind)
{
	struct pool *pool = c->request.pool;
	size_t most = (size_t)scope_max_waiting_clients(scope_of_pool(pool));

	c->request.last_us = c->request.query_us = w.now;
	c->turn = ++w.turns;
	struct verdict v = pool_ask(&c->request, kind, w.now);
	CHECK(v.kind == VERDICT_GRANT || v.kind == VERDICT_WAIT ||
	      v.kind == VERDICT_REFUSE);
	CHECK(v.kind != VERDICT_WAIT || c->request.state == REQUEST_WAITING);
	CHECK(!v.is_full || (most > 0 && pool->waiting.count >= most));
	/* those for whom a server rests wait for a moment only */
	size_t resting = pool->slots[SLOT_IDLE].count + pool->slots[SLOT_USED].count;
	CHECK(v.kind != VERDICT_WAIT || !most ||
	      pool->waiting.count <= most + resting ||
	      (kind == REQUEST_PARAMS && pool_has_login_params(pool)));
	w.counts.full += v.is_full;
	carry(&w.worker[c->worker], pool, &v);
}

static void client_asks_any(struct client *c)
{
	static const enum request_kind kinds[] = {REQUEST_QUERY, REQUEST_QUERY,
	    REQUEST_QUERY, REQUEST_QUERY, REQUEST_QUERY, REQUEST_QUERY, REQUEST_AUTH,
	    REQUEST_PARAMS, REQUEST_REPLICATION};

	client_asks(c, kinds[any(sizeof(kinds) / sizeof(kinds[0]))]);
}

static void client_comes(struct client *c, struct worker *worker)
{
	const char *name = database_names[any(w.databases)];
	bool is_new;
	struct database *db = catalog_database(worker->c, name, &is_new);

	if (!db || db->disabled)
		return;
	struct pool *pool =
	    catalog_pool(db, catalog_user(worker->c, user_names[any(w.users)]));
	/* meanwhile it may have come to another worker */
	if (c->request.state != REQUEST_OUTSIDE)
		return;
	database_hold(db);
	database_enter(db, false);
	*c = (struct client){.database = db, .worker = number_of_worker(worker)};
	c->request.is_logged_in = any(4) != 0;
	pool_join(pool, &c->request);
	if (any(2))
		client_asks_any(c);
}

void client_goes(struct client *c)
{
	struct pool *pool = c->request.pool;
	struct database *db = c->database;

	/* it may come to another worker meanwhile */
	c->database = NULL;
	pool_part(&c->request);
	pool_free_if_unused(pool);
	database_leave(db);
	database_release(db);
}

void give_back(struct server *s)
{
	struct pool *pool = s->slot.pool;
	struct pool_request *request = s->slot.request;

	if (any(10) == 0)
		s->slot.cancels_in_flight++;
	s->slot.needs_reset = any(10) == 0;
	s->is_lent = false;
	struct verdict v = pool_give(&s->slot, w.now);
	CHECK(!request || request->state == REQUEST_RESTING ||
	      (v.kind == VERDICT_GRANT && v.request == request));
	carry(&w.worker[s->worker], pool, &v);
}

/* It gives its server back, leaves it unusable, or disconnects, and the broker cleans
 * up before it gives the server back. */
static void client_is_done(struct client *c)
{
	struct server *s = server_of(c->request.slot);

	if (any(20) == 0) {
		pool_abandon(&s->slot, w.now);
		s->is_closing = true;
		w.counts.abandoned++;
	} else if (any(8) == 0 && !s->slot.is_replication) {
		pool_orphan(&s->slot, w.now);
		client_goes(c);
	} else {
		give_back(s);
	}
	CHECK(c->request.state != REQUEST_LINKED || c->request.slot == &s->slot);
}

void client_acts(struct client *c, bool is_patient)
{
	bool is_outside = c->request.state == REQUEST_OUTSIDE;
	struct worker *worker = &w.worker[is_outside ? any(w.workers) : c->worker];

	if (!may_enter(worker))
		return;
	if (is_outside)
		client_comes(c, worker);
	else if (c->request.state == REQUEST_RESTING && any(is_alone() ? 8 : 2))
		client_asks_any(c);
	else if (c->request.state == REQUEST_RESTING)
		client_goes(c);
	else if (c->request.state == REQUEST_WAITING && !is_patient && any(2))
		pool_withdraw(&c->request);
	else if (c->request.state == REQUEST_WAITING && !is_patient)
		client_goes(c);
	/* that of a replication client may still be connecting */
	else if (c->request.state == REQUEST_LINKED &&
		 c->request.slot->state == SLOT_ACTIVE)
		client_is_done(c);
	leave(worker);
}

/* ---- servers ---- */

static struct host_report any_report(void)
{
	return (struct host_report){.role = any(3) ? HOST_PRIMARY : HOST_STANDBY,
	    .is_read_only = !any(8),
	    .is_kept_posted = any(2)};
}

/* A connection that carries a cancel request begins: a new one, or one that was being
 * opened. */
static void cancel_begins(struct server *target)
{
	struct pool *pool = target->slot.pool;
	struct worker *worker = &w.worker[target->worker];

	if (!target->is_used || !pool || target->is_closing || target->is_handed ||
	    !may_enter(worker))
		return;
	struct server *s = NULL;
	if (!pool_may_dial_cancel(pool))
		s = NULL;
	else if (target->slot.state == SLOT_LOGIN && !target->slot.request)
		s = target;
	else if (target->slot.state == SLOT_ACTIVE)
		s = unused_server();
	if (s && s != target) {
		s->worker = target->worker;
		s->pool = target->pool;
		target->slot.cancels_in_flight++;
	}
	if (s) {
		w.cancels++;
		w.counts.cancels++;
		pool_dialing_cancel(pool, &s->slot, w.now);
	}
	leave(worker);
}

static void login_fails(struct server *s, enum dial_failure kind)
{
	static const char *const states[] = {"28000", "57P03", "3D000"};

	pool_dial_failed(&s->slot, kind, "no luck", states[any(3)], w.now);
	CHECK(s->slot.state == SLOT_NONE);
	s->is_closing = true;
}

static void login_ends(struct server *s, bool is_lucky)
{
	struct pool *pool = s->slot.pool;

	if (pool->is_killed) {
		close_server(s);
		return;
	}
	if (!is_lucky && any(7) == 0) {
		login_fails(s, is_alone() ? (enum dial_failure)any(3) : DIAL_NETWORK);
		return;
	}
	if (!is_lucky && is_alone()) {
		struct host_report report = any_report();
		hosts_learn(&s->slot, &report, w.now);
		if (!hosts_is_fit(pool, s->slot.pool_host->host)) {
			login_fails(s, DIAL_UNFIT);
			return;
		}
	}
	/* what the server of a replication client reports is its client's */
	if (s->slot.dirty || s->slot.is_replication)
		;
	else if (pool_has_login_params(pool))
		central_confirm_login_params(
		    &worker_of(pool)->c->view, pool->part.whole);
	else
		pool_got_login_params(pool);
	struct verdict v = pool_logged_in(&s->slot, w.now);
	carry(&w.worker[s->worker], pool, &v);
}

/* Lets the server take its next step.  False: it has none, but may still die. */
static bool has_stepped(struct server *s, bool is_lucky)
{
	struct pool *pool = s->slot.pool;
	struct verdict v = {.kind = VERDICT_NONE};

	if (s->is_handed)
		send_off(s);
	else if (s->is_closing || s->slot.state == SLOT_ACTIVE_CANCEL)
		close_server(s);
	else if (s->slot.state == SLOT_LOGIN)
		login_ends(s, is_lucky);
	else if (s->slot.state == SLOT_ACTIVE && !s->slot.request)
		give_back(s);
	else if (s->slot.cancels_in_flight)
		v = pool_cancel_done(&s->slot, w.now);
	else if (s->slot.state == SLOT_TESTED)
		v = pool_tested(&s->slot, w.now);
	else
		return false;
	carry(&w.worker[s->worker], pool, &v);
	return true;
}

/* is_mortal: a server with nothing else to do may die. */
bool has_acted(struct server *s, bool is_lucky, bool is_mortal)
{
	struct worker *worker = &w.worker[s->worker];

	if (!s->is_used || !s->slot.pool || !may_enter(worker))
		return false;
	bool has = has_stepped(s, is_lucky);
	if (!has && is_mortal && any(40) == 0)
		close_server(s);
	leave(worker);
	return has;
}

struct server *any_server(void)
{
	unsigned count = w.servers_used ? (unsigned)w.servers_used : 1;
	unsigned start = any(count);

	for (unsigned i = 0; i < count; i++) {
		struct server *s = &w.servers[(start + i) % count];
		if (s->is_used)
			return s;
	}
	return &w.servers[0];
}

/* Closes clients and servers of killed pools, and servers that clients of such pools
 * have.  What is on its way to another worker continues. */
bool has_buried_one(void)
{
	for (int i = 0; i < w.servers_used; i++) {
		struct server *s = &w.servers[i];
		struct worker *worker = &w.worker[s->worker];
		if (s->is_used && s->slot.pool && s->slot.pool->is_killed &&
		    !s->is_handed && may_enter(worker)) {
			close_server(s);
			leave(worker);
			return true;
		}
	}
	for (unsigned i = 0; i < w.clients; i++) {
		struct client *c = &w.client[i];
		struct worker *worker = &w.worker[c->worker];
		if (c->request.pool && c->request.pool->is_killed &&
		    c->request.state != REQUEST_LINKED && may_enter(worker)) {
			client_goes(c);
			leave(worker);
			return true;
		}
	}
	return false;
}

/* ---- hosts, of one worker ---- */

/* The monitor has looked at the hosts of a database.  all_up: they are up and fit. */
void monitor_tells(unsigned database, bool all_up)
{
	struct database *db =
	    catalog_find_database(w.worker[0].c, database_names[database]);
	struct host_verdict list[3];

	if (!db || !hosts_are_watched(db))
		return;
	CHECK(db->hosts.count <= 3);
	for (size_t i = 0; i < db->hosts.count; i++) {
		struct host_verdict *v = &list[i];
		memset(v, 0, sizeof(*v));
		v->value.state = all_up || any(2) ? HOST_UP : (enum host_state)any(5);
		v->value.report.role = all_up ? HOST_PRIMARY : any_report().role;
		v->is_fit = all_up || any(4);
		v->may_be_tried = !any(4);
		v->lag_us = v->lag_bytes = UINT64_MAX;
		if (v->value.state != HOST_UP)
			strcpy(v->value.reason, "no luck");
	}
	hosts_follow(db, list, db->hosts.count, w.now);
}

static void host_changes(void)
{
	struct server *s = any_server();
	struct host_report report = any_report();

	if (any(3) == 0)
		monitor_tells(any(DATABASES), false);
	else if (s->is_used && s->slot.pool_host)
		hosts_learn(&s->slot, &report, w.now);
}

/* ---- what happens ---- */

void freeze(bool is_frozen)
{
	central_freeze(w.central, is_frozen);
	w.counts.freezes += is_frozen;
}

/* One worker is looked at after seconds, when everything that was due has happened. */
static void time_goes_by(void)
{
	if (!is_alone())
		w.now += any(8) ? any(3000) : any(50000);
	else if (any(40) == 0)
		w.now += 100 * (uint64_t)SECOND;
	else
		w.now += any(8) ? any(SECOND) : any(20 * SECOND);
	if (is_alone())
		serve_woken(&w.worker[0]);
}

static void rarely(void)
{
	struct worker *worker = &w.worker[any(w.workers)];

	if (!is_alone() && any(4) == 0)
		stop_one();
	else if (!is_alone() && any(central_is_frozen(w.central) ? 2 : 6) == 0)
		freeze(!central_is_frozen(w.central));
	else if (w.has_administrator && any(3) == 0)
		administrator_acts();
	/* usually the administrator undoes it soon */
	else if (w.has_administrator && any(2) == 0)
		command((struct order){.kind = any(2) ? ORDER_RESUME : ORDER_ENABLE,
		    .database = any(3) ? DATABASES : any(w.databases)});
	else if (is_alone() && any(2) == 0)
		host_changes();
	else if (may_enter(worker)) {
		catalog_housekeeping(worker->c, w.now, NULL, NULL);
		leave(worker);
	}
}

void happen(void)
{
	struct worker *worker = &w.worker[any(w.workers)];
	unsigned what = any(100);

	if (any(30) == 0)
		rarely();
	else if (what < (is_alone() ? 60 : 27))
		client_acts(&w.client[any(w.clients)], any(10) != 0);
	else if (what < (is_alone() ? 90 : 45))
		(void)has_acted(any_server(), false, true);
	else if (what < 63 && deliver(any(w.workers), any(w.workers)))
		(void)(any(3) == 0 && deliver(WORKERS, any(w.workers)));
	else if (what < 72 && worker->schedule_count)
		serve_scheduled(worker, any((unsigned)worker->schedule_count));
	else if (what < 81)
		serve_woken(worker);
	else if (what < 94)
		time_goes_by();
	else if (what < 97)
		cancel_begins(any_server());
	else
		(void)has_buried_one();
}
