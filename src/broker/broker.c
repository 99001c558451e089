#include "broker/broker.h"

#include <string.h>

#include "broker/dial.h"
#include "broker/dial_turn.h"
#include "broker/host_monitor.h"
#include "broker/login_params.h"
#include "broker/transfer.h"
#include "pool/notes.h"
#include "session/client.h"
#include "session/server.h"
#include "session/server_role.h"
#include "session/workers.h"

/* What the broker keeps for a pool, in pool->runner. */
struct runner {
	struct pool *pool;
	struct site *site;
	struct later work;
	struct deadline wake;
	struct shared_params shared_params;
	struct spellings *spellings; /* owned; NULL: none is kept */
};

static void runner_work(struct later *l);
static void runner_wake(struct deadline *d);

static struct runner *pool_runner(struct site *site, struct pool *pool)
{
	struct runner *runner = pool->runner;
	if (!runner) {
		runner = slab_get(site->runner_slab);
		runner->pool = pool;
		runner->site = site;
		runner->work.run = runner_work;
		deadline_init(&runner->wake, runner_wake);
		shared_params_init(&runner->shared_params, site->vars);
		pool->runner = runner;
	}
	return runner;
}

static uint64_t site_now(const struct site *site)
{
	return loop_now(site->loop);
}

/* ---- carrying out verdicts ---- */

/* Logs the verdict, at the level of details. */
static void note(const struct pool *pool, const struct verdict *v)
{
	static const char *const names[] = {
	    [VERDICT_NONE] = "nothing to do",
	    [VERDICT_GRANT] = "a client gets a server",
	    [VERDICT_WAIT] = "a client waits",
	    [VERDICT_ADMIT] = "a login may end",
	    [VERDICT_REFUSE] = "a client is refused",
	    [VERDICT_DIAL] = "a server connection is opened",
	    [VERDICT_CHECK] = "a server is checked",
	    [VERDICT_RESET] = "a server is reset",
	    [VERDICT_PREPARE] = "a server gets prepared statements",
	    [VERDICT_RETIRE] = "a server is closed",
	    [VERDICT_REST] = "a server rests",
	    [VERDICT_PARK] = "a server waits for cancel requests",
	    [VERDICT_HAND] = "a server goes to another worker",
	};
	const struct site *site = pool->database->catalog->events_ctx;

	if (log_is_on(site->log, LEVEL_NOISE | KIND_POOLS) && v->kind != VERDICT_NONE)
		log_put(site->log, LEVEL_NOISE | KIND_POOLS, NULL, "pool %s/%s: %s%s%s",
		    pool->database->name, pool->user->name, names[v->kind],
		    v->text ? ": " : "", v->text ? v->text : "");
}

/* Acts on the verdict about a server that was given back or has passed its test. */
static void broker_place(struct server *server, const struct verdict *v)
{

	switch (v->kind) {
	case VERDICT_GRANT: {
		struct request *request = request_of(v->request);
		server_rest(server, 0);
		request->ops->granted(request);
		break;
	}
	case VERDICT_RESET:
		server_test(server,
		    scope_server_reset_query(scope_of_pool(server->slot.pool)),
		    "reset query failed");
		break;
	case VERDICT_PREPARE:
		server->conn.site->prepare_like(server, slot_server(v->model));
		break;
	case VERDICT_RETIRE:
		server_retire(server, v->text);
		break;
	case VERDICT_REST:
		server_rest(server, v->wake_us);
		break;
	case VERDICT_PARK:
		server_rest(server, 0);
		break;
	case VERDICT_HAND:
		server_rest(server, 0);
		transfer_begin(server, v->site);
		break;
	case VERDICT_NONE:
	case VERDICT_WAIT:
	case VERDICT_ADMIT:
	case VERDICT_REFUSE:
	case VERDICT_DIAL:
	case VERDICT_CHECK:
		break;
	}
}

static void broker_log_reserve(const struct pool *pool)
{
	struct node *first = list_first(&pool->waiting);
	if (first) {
		const struct request *r =
		    request_of(container_of(first, struct pool_request, node));
		conn_log(r->ops->conn(r), LEVEL_WARNING | KIND_POOLS,
		    "taking connection from reserve_pool");
	}
}

/* Closes servers that are marked to be replaced, although they are not given back: the
 * one that listens for all clients, who may connect to another place next; and for
 * server_fast_close those that clients of session mode have, when nothing runs there.
 */
static void broker_close_fast(struct pool *pool, bool goes_down)
{
	bool is_fast = scope_server_fast_close(scope_of_pool(pool)) &&
		       pool_mode(pool) == POOL_MODE_SESSION;
	struct slot *slot, *next;

	list_for_safe (slot, next, &pool->slots[SLOT_ACTIVE], node)
		if (slot->is_listener ? slot->dirty || goes_down
				      : is_fast && slot->dirty > DIRTY_SURPLUS &&
					    slot_server(slot)->is_ready)
			server_retire(
			    slot_server(slot), error_text(ERROR_DATABASE_CHANGED));
}

/* Closes servers at hosts that hang or are older primaries, also those that clients
 * use, because another host serves. */
static void broker_close_lost(struct pool *pool)
{
	struct slot *slot, *next;

	pool->balance.has_lost = false;
	for (int state = SLOT_NONE + 1; state < SLOT_STATE_COUNT; state++)
		list_for_safe (slot, next, &pool->slots[state], node)
			if (hosts_is_lost(slot))
				server_retire(slot_server(slot),
				    error_text(
					slot->pool_host->host->verdict.is_outdated
					    ? ERROR_HOST_OUTDATED
					    : ERROR_HOST_HANGS));
}

/* Acts on all verdicts of a pool until there is nothing more to do now. */
static void runner_work(struct later *l)
{
	struct runner *runner = container_of(l, struct runner, work);
	struct site *site = runner->site;
	struct pool *pool = runner->pool;
	struct verdict v;
	const char *sql;

	pool->is_scheduled = false;
	/* connections that were offered to another process must stay as they were
	 * described */
	if (site->shutdown == SHUTDOWN_NOW || pool->database->catalog->is_offered)
		return;
	bool goes_down = site->shutdown == SHUTDOWN_WAIT_FOR_SERVERS;
	if (pool->has_dirty || goes_down)
		broker_close_fast(pool, goes_down);
	if (pool->balance.has_lost)
		broker_close_lost(pool);
	/* there may be room for the connection of the first cancel request now */
	struct node *cancel = list_first(&pool->cancels_waiting);
	if (cancel)
		loop_later(site->loop,
		    &container_of(cancel, struct cancel_aim, pool_node)->work);
	while ((v = pool_next(pool, site_now(site))).kind != VERDICT_NONE) {
		note(pool, &v);
		switch (v.kind) {
		case VERDICT_GRANT:
		case VERDICT_HAND:
			broker_place(slot_server(v.slot), &v);
			break;
		case VERDICT_ADMIT:
			request_of(v.request)->ops->admitted(request_of(v.request));
			break;
		case VERDICT_REFUSE:
			request_of(v.request)->ops->refused(request_of(v.request),
			    v.sqlstate ? v.sqlstate
				       : error_sqlstate(ERROR_CONNECTION_LOST),
			    v.text);
			break;
		case VERDICT_CHECK:
			sql = scope_server_check_query(scope_of_pool(pool));
			server_test(slot_server(v.slot),
			    strcmp(sql, "<empty>") == 0 ? "" : sql,
			    "test query failed");
			break;
		case VERDICT_RETIRE:
			server_retire(slot_server(v.slot), v.text);
			break;
		case VERDICT_DIAL:
			if (v.is_reserve)
				broker_log_reserve(pool);
			if (v.is_replication)
				dial_replica(
				    site, pool, request_client(request_of(v.request)));
			else
				dial_server(site, pool);
			break;
		case VERDICT_NONE:
		case VERDICT_WAIT:
		case VERDICT_RESET:
		case VERDICT_PREPARE:
		case VERDICT_REST:
		case VERDICT_PARK:
			break;
		}
	}
	if (v.wake_us != UINT64_MAX)
		deadline_set(site->loop, &runner->wake, v.wake_us);
	else
		deadline_clear(site->loop, &runner->wake);
}

static void runner_wake(struct deadline *d)
{
	struct runner *runner = container_of(d, struct runner, wake);
	loop_later(runner->site->loop, &runner->work);
}

static void broker_schedule_at(struct site *site, struct pool *pool)
{
	if (pool->is_scheduled)
		return;
	pool->is_scheduled = true;
	loop_later(site->loop, &pool_runner(site, pool)->work);
}

/* ---- events of the catalog ---- */

static void on_schedule(void *ctx, struct pool *pool)
{
	broker_schedule_at(ctx, pool);
}

static void kill_asks(struct list *requests, const char *reason)
{
	struct pool_request *request, *next;
	list_for_safe (request, next, requests, node)
		request_of(request)->ops->killed(request_of(request), reason);
}

static void on_kill(void *ctx, struct pool *pool, const char *reason)
{
	struct slot *slot, *next;
	(void)ctx;
	kill_asks(&pool->waiting, reason);
	kill_asks(&pool->clients, reason);
	for (int state = SLOT_NONE + 1; state < SLOT_STATE_COUNT; state++)
		list_for_safe (slot, next, &pool->slots[state], node)
			server_retire(slot_server(slot), reason);
}

static void on_freed(void *ctx, struct pool *pool)
{
	struct site *site = ctx;
	struct runner *runner = pool->runner;
	if (!runner)
		return;
	later_cancel(site->loop, &runner->work);
	deadline_clear(site->loop, &runner->wake);
	shared_params_done(&runner->shared_params);
	spellings_free(&runner->spellings);
	slab_put(site->runner_slab, runner);
	pool->runner = NULL;
}

static void note_arrived(struct thread_message *message)
{
	struct central_note *note = container_of(message, struct central_note, message);
	struct site *site = note->ctx;

	if (site->shutdown != SHUTDOWN_NOW) {
		struct verdict v = notes_hear(site->catalog, note, site_now(site));
		if (v.kind == VERDICT_RETIRE)
			server_retire(slot_server(v.slot), v.text);
	}
	central_note_free(note);
}

static void post_note(void *ctx, struct central_note *note)
{
	struct site *site = ctx;
	struct worker *to = &site->worker->workers->members[note->worker];

	note->ctx = to->site;
	note->message.handle = note_arrived;
	workers_post(to, &note->message);
}

static void on_hint(
    void *ctx, const struct host *host, const struct host_report *report)
{
	host_monitor_hint(ctx, host, report);
}

static const struct catalog_events broker_catalog_events = {
    .hint = on_hint,
    .schedule = on_schedule,
    .kill = on_kill,
    .freed = on_freed,
};

/* ---- events of servers ---- */

/* Checks that the server has sent nothing after its last answer.  False: it closes. */
static bool broker_is_clean(struct server *server)
{
	if (server_is_between_messages(server))
		return true;
	server_note_unasked(server);
	server_retire(server, "idle server got dirty");
	return false;
}

/* Where other workers find the login parameters. */
static struct shared_params_place runner_place(const struct runner *runner)
{
	const struct pool *pool = runner->pool;

	return (struct shared_params_place){
	    &pool->database->catalog->view, pool->part.whole};
}

/* Makes the login parameters from the parameters of the server that logged in last. -1:
 * no memory. */
static int runner_greet(struct runner *runner, struct server *server)
{
	const struct shared_params_place place = runner_place(runner);

	bool was_known = pool_has_login_params(runner->pool);

	if (!was_known)
		spellings_free(&runner->spellings);
	if (shared_params_replace(&runner->shared_params, &place, &server->vars,
		dial_untracked(server)) < 0)
		return -1;
	if (!was_known)
		pool_got_login_params(runner->pool);
	return 0;
}

static void on_logged_in(struct server *server)
{
	struct site *site = server->conn.site;
	struct pool *pool = server->slot.pool;
	struct verdict v;

	vars_take(&server->own, &server->vars);
	/* the parameters of a replication server were set for one client */
	if (!server->slot.dirty && !server->slot.is_replication &&
	    runner_greet(pool_runner(site, pool), server) < 0) {
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
		return;
	}
	v = pool_logged_in(&server->slot, site_now(site));
	note(pool, &v);
	broker_place(server, &v);
	broker_schedule_at(site, pool);
}

static void on_tested(struct server *server)
{
	const struct pool *pool = server->slot.pool;
	struct verdict v;

	if (!broker_is_clean(server))
		return;
	v = pool_tested(&server->slot, site_now(server->conn.site));
	note(pool, &v);
	broker_place(server, &v);
}

static void on_reported(struct server *server)
{
	server_role_follow(server, &server->own);
}

static void on_review(struct server *server)
{
	struct verdict v = pool_review(&server->slot, site_now(server->conn.site));
	broker_place(server, &v);
}

static void on_gone(struct server *server, const char *reason)
{
	struct pool *pool = server->slot.pool;
	(void)reason;
	if (!pool)
		return;
	pool_gone(&server->slot, site_now(server->conn.site));
	pool_free_if_unused(pool);
}

static const struct server_events broker_server_events = {
    .logged_in = on_logged_in,
    .tested = on_tested,
    .reported = on_reported,
    .review = on_review,
    .gone = on_gone,
};

/* ---- events of the resolver ---- */

void broker_lose_address(void *ctx, const char *host, const struct sock_addr *gone)
{
	struct site *site = ctx;
	struct pool *pool;
	struct slot *slot;

	list_for (pool, &site->catalog->pool_list, node)
		for (int state = SLOT_NONE + 1; state < SLOT_STATE_COUNT; state++)
			list_for (slot, &pool->slots[state], node) {
				const struct server *server = slot_server(slot);
				if (state != SLOT_ACTIVE_CANCEL && server->host &&
				    strcmp(server->host, host) == 0 &&
				    sock_addr_is_equal_ip(&server->conn.remote, gone))
					pool_mark_slot_dirty(slot, DIRTY_OLD);
			}
}

/* ---- calls of clients ---- */

void broker_init(struct site *site)
{
	site->runner_slab =
	    slab_new(&site->mem, "pool_runner_cache", sizeof(struct runner));
	site->catalog->events = &broker_catalog_events;
	site->catalog->events_ctx = site;
	site->catalog->view.post = post_note;
	site->catalog->view.post_ctx = site;
	site->server_events = &broker_server_events;
	dial_init(site);
	dial_turn_init(site);
	host_monitor_init(site);
}

void broker_stop(struct site *site)
{
	dial_turn_done(site);
}

void broker_done(struct site *site)
{
	host_monitor_done(site);
	slab_free(&site->dial_slab);
	slab_free(&site->runner_slab);
}

enum broker_answer broker_ask(struct request *request, enum request_kind kind,
    const char **sqlstate, const char **text)
{
	struct pool *pool = request->in_pool.pool;
	struct catalog *catalog = pool->database->catalog;
	struct site *site = catalog->events_ctx;
	struct verdict v = pool_ask(&request->in_pool, kind, site_now(site));

	note(pool, &v);
	switch (v.kind) {
	case VERDICT_GRANT:
		return BROKER_GRANTED;
	case VERDICT_REFUSE:
		*sqlstate =
		    v.sqlstate ? v.sqlstate : error_sqlstate(ERROR_CONNECTION_LOST);
		*text = v.text;
		broker_schedule_at(site, pool);
		return v.is_full ? BROKER_FULL : BROKER_REFUSED;
	default:
		return BROKER_WAIT;
	}
}

void broker_give(struct server *server)
{
	const struct pool *pool = server->slot.pool;
	struct verdict v;

	if (!broker_is_clean(server)) {
		server_rest(server, 0);
		pool_abandon(&server->slot, site_now(server->conn.site));
		return;
	}
	v = pool_give(&server->slot, site_now(server->conn.site));
	note(pool, &v);
	broker_place(server, &v);
}

void broker_cancel_done(struct server *server)
{
	struct verdict v = pool_cancel_done(&server->slot, site_now(server->conn.site));
	broker_place(server, &v);
}

void broker_review(struct site *site)
{
	static const enum slot_state resting[] = {SLOT_IDLE, SLOT_USED};
	struct pool *pool;
	struct slot *slot, *next;

	list_for (pool, &site->catalog->pool_list, node) {
		/* an idle pool has no clients and no servers */
		if (node_is_linked(&pool->idle_node))
			continue;
		for (size_t i = 0; i < 2; i++)
			list_for_safe (slot, next, &pool->slots[resting[i]], node)
				on_review(slot_server(slot));
		broker_schedule_at(site, pool);
	}
	dial_turn_review(site);
	host_monitor_review(site);
}

void broker_schedule(struct pool *pool)
{
	broker_schedule_at(pool->database->catalog->events_ctx, pool);
}

int broker_learn(struct server *server, size_t i)
{
	const struct pool *pool = server->slot.pool;
	struct runner *runner = pool->runner;

	vars_copy(&server->own, &server->vars, i);
	server_role_follow(server, &server->own);
	if (!runner || !pool_has_login_params(pool) || server->slot.dirty ||
	    server->slot.is_replication)
		return 0;
	const struct shared_params_place place = runner_place(runner);
	return shared_params_set(&runner->shared_params, &place, &server->vars, i);
}

void broker_learn_resets(struct server *server, uint64_t reset)
{
	for (size_t i = 0; i < EFFECTS_PARAMETERS && reset >> i; i++) {
		bool is_new =
		    (reset >> i & 1) && !vars_is_same(&server->vars, &server->own, i);
		if (is_new && broker_learn(server, i) < 0)
			server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	}
}

const struct login_params *broker_login_params(struct pool *pool)
{
	struct site *site = pool->database->catalog->events_ctx;

	if (!pool_has_login_params(pool))
		return NULL;
	struct runner *runner = pool_runner(site, pool);
	const struct shared_params_place place = runner_place(runner);
	shared_params_follow(&runner->shared_params, &place);
	return &runner->shared_params.login_params;
}

uint64_t broker_spell(struct pool *pool, struct vars *asked, int *failed)
{
	const struct login_params *login_params = broker_login_params(pool);

	*failed = 0;
	return spellings_apply(pool->runner->spellings, login_params, asked, failed);
}

void broker_keep_spelling(
    struct pool *pool, size_t i, const char *base, const char *asked, const char *value)
{
	struct runner *runner = pool->runner;

	if (!runner->spellings)
		runner->spellings = spellings_new();
	spellings_keep(runner->spellings, i, base, asked, value);
}

int broker_restore_login_params(struct site *site, struct pool *pool,
    const struct vars *vars, const uint8_t *untracked, size_t len)
{
	struct runner *runner = pool_runner(site, pool);
	const struct shared_params_place place = runner_place(runner);
	struct buf rest;
	int failed;

	if (pool_has_login_params(pool))
		return 0;
	buf_init(&rest, 0);
	buf_put(&rest, untracked, len);
	failed = rest.failed ? -1
			     : shared_params_replace(
				   &runner->shared_params, &place, vars, &rest);
	if (!failed)
		pool_got_login_params(pool);
	buf_done(&rest);
	return failed;
}
