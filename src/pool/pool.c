/*
 * Clients join, ask and leave; servers are lent, given back, tested and lost.
 * pool_next.c decides everything else that the queue needs: connecting, evicting,
 * refusing.
 */
#include "pool/pool.h"

#include <assert.h>

#include "base/time_us.h"
#include "pool/activity.h"
#include "pool/conn_limits.h"
#include "pool/exchange.h"
#include "pool/hosts_role.h"
#include "pool/idle.h"
#include "pool/pool_effective.h"
#include "pool/queue.h"
#include "pool/scopes.h"
#include "pool/slots.h"

/* How long a server that is past its lifetime goes on at most while another one is
 * opened. */
enum { REPLACE_PATIENCE_US = 5000000 };

/* A server that has rested for longer is closed without another one. */
enum { UNUSED_US = 60000000 };

static void note_time(struct pool *pool, uint64_t now_us)
{
	catalog_note_time(pool->database->catalog, now_us);
}

/* ---- clients ---- */

static void note_clients(struct pool *pool, int change)
{
	central_add_own(&pool->part.clients, change);
	if (!pool->is_killed)
		atomic_fetch_add(&pool->part.whole->clients, change);
	idle_note_pool(pool);
	conn_limits_note(pool);
}

void pool_join(struct pool *pool, struct pool_request *request)
{
	assert(request->state == REQUEST_OUTSIDE);
	request->pool = pool;
	request->state = REQUEST_RESTING;
	list_push_back(&pool->clients, &request->node);
	note_clients(pool, 1);
	if (pool_is_undersized(pool))
		pool_schedule(pool);
}

void pool_part(struct pool_request *request)
{
	struct pool *pool = request->pool;

	if (request->state == REQUEST_OUTSIDE)
		return;
	pool_withdraw(request);
	assert(request->state == REQUEST_RESTING);
	if (pool->database->catalog->activity)
		activity_leave(pool->database->catalog->activity, request);
	list_remove(&pool->clients, &request->node);
	request->state = REQUEST_OUTSIDE;
	request->pool = NULL;
	note_time(pool, request->last_us);
	note_clients(pool, -1);
}

void pool_withdraw(struct pool_request *request)
{
	if (request->state != REQUEST_WAITING)
		return;
	queue_remove(request);
	/* the next client in the queue may need something else, or room may no longer
	 * be needed */
	pool_schedule(request->pool);
}

/* protocol.md 10.4: the last login failed, and there is no server to wait for, at any
 * site. */
static bool is_failing_fast(const struct pool_request *request, enum request_kind kind)
{
	const struct pool *pool = request->pool;

	/* with several hosts there is always something to wait for: also the next word
	 * of a monitor that does not look, because clients only fail */
	if (pool->failure.kind != FAILURE_LOGIN || pool->database->hosts.is_stale ||
	    pool_connected_everywhere(pool) > 0)
		return false;
	return kind == REQUEST_AUTH || (kind == REQUEST_QUERY && request->is_logged_in);
}

/* How many clients may wait; 0: there is no limit.  Who waits for a moment only does
 * not count: for login parameters that are known, or for a server that rests at some
 * site or is on its way. */
static int most_waiting(const struct pool *pool, enum request_kind kind)
{
	int limit = scope_max_waiting_clients(scope_of_pool(pool));

	if (limit <= 0 || (kind == REQUEST_PARAMS && pool_has_login_params(pool)))
		return 0;
	if (kind == REQUEST_REPLICATION || pool_is_paused(pool))
		return limit;
	return limit + exchange_available(pool);
}

static struct verdict wait_in_queue(
    struct pool_request *request, enum request_kind kind, uint64_t now_us)
{
	struct pool *pool = request->pool;

	bool is_greeted = kind == REQUEST_PARAMS && pool_has_login_params(pool);
	if (pool->database->catalog->refuse_waiting && !is_greeted)
		return queue_refuse_for(request, ERROR_SERVER_SHUTTING_DOWN);
	if (!queue_add(request, kind, most_waiting(pool, kind), now_us)) {
		struct verdict v = queue_refuse_for(request, ERROR_TOO_MANY_WAITING);
		v.is_full = true;
		return v;
	}
	/* while others wait for a server as well, this client changes nothing */
	bool is_one_more = (kind == REQUEST_QUERY || kind == REQUEST_AUTH) &&
			   pool->part.waiters.count > 1 &&
			   list_is_empty(&pool->slots[SLOT_TESTED]);
	if (!is_one_more)
		pool_schedule(pool);
	return (struct verdict){
	    .kind = VERDICT_WAIT, .request = request, .wake_us = UINT64_MAX};
}

struct verdict pool_ask(
    struct pool_request *request, enum request_kind kind, uint64_t now_us)
{
	struct pool *pool = request->pool;
	uint64_t wake_us = UINT64_MAX;

	assert(request->state == REQUEST_RESTING);
	note_time(pool, now_us);
	request->kind = kind;
	if (pool->is_killed)
		return queue_refuse_for(request, ERROR_DATABASE_REMOVED);
	if (kind == REQUEST_PARAMS || kind == REQUEST_REPLICATION ||
	    pool_is_paused(pool))
		return wait_in_queue(request, kind, now_us);
	struct slot *slot = queue_idle_slot(pool);
	if (slot && list_is_empty(&pool->part.waiters) &&
	    (!exchange_has_waiting(pool) ||
		exchange_receiver(pool, NULL, now_us, &wake_us) < 0))
		return queue_grant(request, slot, now_us);
	if (!slot && is_failing_fast(request, kind)) {
		if (now_us - pool->dial_us >= pool_login_retry(pool)) {
			pool->wants_probe = true;
			pool_schedule(pool);
		}
		return queue_refuse(request, pool->failure.fast,
		    error_sqlstate(ERROR_SERVER_LOGIN_FAILING));
	}
	return wait_in_queue(request, kind, now_us);
}

uint64_t pool_max_wait(const struct pool *pool, uint64_t now_us)
{
	const struct pool_request *request = queue_first(pool);

	if (!request)
		return 0;
	/* a client that logs in has no query */
	uint64_t since = request->query_us ? request->query_us : request->queued_us;
	return since && since < now_us ? now_us - since : 0;
}

uint64_t pool_last_attempt(const struct pool *pool, const char **failure)
{
	*failure = pool->failure.text[0] ? pool->failure.text : NULL;
	return pool->slots[SLOT_LOGIN].count ? 0 : pool->dial_us;
}

/* ---- servers at rest ---- */

static bool is_over_lifetime(const struct slot *slot, uint64_t now_us)
{
	const struct pool *pool = slot->pool;

	if (now_us - slot->born_us < scope_server_lifetime(scope_of_pool(pool)))
		return false;
	return !pool->replacement.closed_us ||
	       now_us - pool->replacement.closed_us >= pool_lifetime_spacing(pool);
}

/* Whether another server is to be opened before this one closes: clients use it, and no
 * limit is in the way. */
static bool is_to_be_replaced(const struct slot *slot, uint64_t now_us)
{
	struct pool *pool = slot->pool;
	const struct catalog *c = pool->database->catalog;
	size_t size = (size_t)pool_size(pool);

	if (!scope_server_lifetime(scope_of_pool(pool)) || slot->dirty ||
	    !slot->was_lent || now_us < pool->replacement.retry_us)
		return false;
	if (slot->state != SLOT_ACTIVE && now_us - slot->rested_us > UNUSED_US)
		return false;
	if (pool->is_killed || pool->failure.kind || pool_is_paused(pool) ||
	    c->is_leaving || c->view.serves_nobody)
		return false;
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		if (conn_limits_is_full(pool, kind))
			return false;
	return !size || pool_servers_everywhere(pool) < size;
}

/* What becomes of a server whose lifetime is over.  True: it goes on serving, because
 * another one is opened for its place, or for that of another server. */
static bool replace_first(struct slot *slot, uint64_t now_us)
{
	struct pool *pool = slot->pool;
	struct pool_replacement *r = &pool->replacement;

	if (!r->old) {
		if (!is_to_be_replaced(slot, now_us))
			return false;
		r->old = slot;
		r->stage = REPLACE_WANTED;
		r->until_us = now_us + REPLACE_PATIENCE_US;
		pool_schedule(pool);
	}
	return r->stage != REPLACE_DUE && now_us < r->until_us;
}

/* The time of the next pool_review of a resting slot. */
static uint64_t review_time(const struct slot *slot, uint64_t now_us)
{
	const struct pool *pool = slot->pool;
	struct scope scope = scope_of_pool(pool);
	uint64_t idle = scope_server_idle_timeout(scope);
	uint64_t lifetime = scope_server_lifetime(scope_of_pool(pool));
	uint64_t at = UINT64_MAX;

	if (pool->database->catalog->suspended)
		return now_us + 1000000;
	if (lifetime)
		at = time_later(slot->born_us + lifetime,
		    pool->replacement.closed_us
			? pool->replacement.closed_us + pool_lifetime_spacing(pool)
			: 0);
	/* it may wait for the one that is opened */
	if (at <= now_us && pool->replacement.old)
		at = now_us + REPLACE_LOOK_US;
	if (idle) {
		uint64_t due = slot->rested_us + idle;
		/* min_pool_size keeps it; no event tells when that ends */
		if (due <= now_us)
			due = now_us + idle;
		at = time_earlier(at, due);
	}
	if (slot->state == SLOT_IDLE && pool_has_check(pool))
		at =
		    time_earlier(at, slot->rested_us + scope_server_check_delay(scope));
	return at;
}

static struct verdict rest_verdict(struct slot *slot, uint64_t now_us)
{
	return (struct verdict){
	    .kind = VERDICT_REST, .slot = slot, .wake_us = review_time(slot, now_us)};
}

/* A connection to another host is wanted, and the limits leave no room for it. */
static bool makes_room_for_host(const struct slot *slot)
{
	struct pool *pool = slot->pool;

	if (!pool->balance.wants_room || !slot->was_lent || pool_is_paused(pool))
		return false;
	const struct host *host = hosts_wanted(pool);
	if (!host || !hosts_may_spare(slot, host))
		return false;
	pool->balance.wants_room = false;
	return true;
}

/* The first in the queue is a replication client, which needs a connection of its own
 * and lacks the room for it.  The server's next client came later. */
static bool makes_room_for_replica(const struct slot *slot)
{
	const struct pool *pool = slot->pool;
	const struct pool_request *first = queue_first(pool);
	int size = pool_size(pool);

	if (!first || !slot->was_lent || pool->failure.kind ||
	    first->kind != REQUEST_REPLICATION)
		return false;
	return conn_limits_is_wanted(pool) ||
	       (size > 0 && pool_servers_everywhere(pool) >= (size_t)size);
}

/* Ready for the next client, or to be checked before that. */
static struct verdict settle(struct slot *slot, uint64_t now_us)
{
	struct pool *pool = slot->pool;

	if (pool->is_killed)
		return slot_retire(slot, error_text(ERROR_DATABASE_REMOVED));
	if (pool_is_closing_for_pause(pool))
		return slot_retire(slot, "pause mode");
	if (conn_limits_is_exceeded(pool, CONN_LIMIT_PROCESS))
		return slot_retire(slot, conn_limits_surplus_reason);
	if (slot == pool->replacement.old && pool->replacement.stage == REPLACE_DUE)
		return slot_retire_for_lifetime(slot, now_us);
	bool is_paused = pool_is_paused(pool);
	struct pool_request *request = is_paused ? NULL : queue_first_waiter(pool);
	/* One that is new was opened when it was this pool's turn. */
	if (!is_paused && slot->was_lent && conn_limits_is_owed(pool, now_us))
		return slot_retire(slot, "evicted");
	if (!is_paused && makes_room_for_replica(slot))
		return slot_retire(slot, "evicted");
	bool is_checked_always =
	    !scope_server_check_delay(scope_of_pool(pool)) && pool_has_check(pool);
	if (is_checked_always && !(request && slot->was_checked)) {
		slot_move(slot, SLOT_USED, now_us);
		return rest_verdict(slot, now_us);
	}
	/* whatever comes to rest while others wait is looked at by pool_next */
	uint64_t wake_us = UINT64_MAX;
	int receiver = exchange_has_waiting(pool)
			   ? exchange_receiver(pool, request, now_us, &wake_us)
			   : -1;
	if (receiver >= 0) {
		slot->rested_us = now_us;
		return slot_carry(slot, (unsigned)receiver);
	}
	if (makes_room_for_host(slot))
		return slot_retire(slot, "another host is due");
	if (request)
		return queue_grant(request, slot, now_us);
	slot_move(slot, SLOT_IDLE, now_us);
	return rest_verdict(slot, now_us);
}

/* The steps of a release that every slot goes through, wherever it comes from. */
static struct verdict close_or_park(struct slot *slot, uint64_t now_us)
{
	if (slot->dirty)
		return slot_retire(slot, "close_needed");
	if (!slot->cancels_in_flight)
		return (struct verdict){.kind = VERDICT_NONE, .wake_us = UINT64_MAX};
	slot_move(slot, SLOT_BEING_CANCELED, now_us);
	return (struct verdict){
	    .kind = VERDICT_PARK, .slot = slot, .wake_us = UINT64_MAX};
}

static bool has_reset(const struct pool *pool)
{
	const char *query = scope_server_reset_query(scope_of_pool(pool));

	return query && *query;
}

/* What happens after use: protocol.md 9.2. */
static struct verdict release(struct slot *slot, uint64_t now_us)
{
	struct pool *pool = slot->pool;

	if (slot->is_replication)
		return slot_retire(slot, "replication client was closed");
	if (is_over_lifetime(slot, now_us) && !replace_first(slot, now_us))
		return slot_retire_for_lifetime(slot, now_us);
	struct verdict v = close_or_park(slot, now_us);
	if (v.kind != VERDICT_NONE)
		return v;
	if (slot->needs_reset && !has_reset(pool))
		return slot_retire(slot, "session state was left behind");
	if (!has_reset(pool))
		return settle(slot, now_us);
	if (!slot->needs_reset &&
	    !scope_server_reset_query_always(scope_of_pool(pool)) &&
	    pool_mode(pool) != POOL_MODE_SESSION)
		return settle(slot, now_us);
	slot->was_checked = false;
	slot->needs_reset = false;
	slot_move(slot, SLOT_TESTED, now_us);
	queue_review_room(pool);
	return (struct verdict){
	    .kind = VERDICT_RESET, .slot = slot, .wake_us = UINT64_MAX};
}

struct verdict pool_give(struct slot *slot, uint64_t now_us)
{
	assert(slot->state == SLOT_ACTIVE);
	note_time(slot->pool, now_us);
	queue_unlink(slot);
	slot->was_given_back = true;
	return release(slot, now_us);
}

/* If the slot is the new one that was opened for the place of another, that one may be
 * closed now. */
static void end_opening(const struct slot *slot)
{
	struct pool_replacement *r = &slot->pool->replacement;

	if (r->fresh != slot)
		return;
	r->fresh = NULL;
	r->stage = REPLACE_DUE;
	pool_schedule(slot->pool);
}

struct verdict pool_tested(struct slot *slot, uint64_t now_us)
{
	assert(slot->state == SLOT_TESTED);
	end_opening(slot);
	note_time(slot->pool, now_us);
	struct verdict v = close_or_park(slot, now_us);
	return v.kind != VERDICT_NONE ? v : settle(slot, now_us);
}

struct verdict pool_cancel_done(struct slot *slot, uint64_t now_us)
{
	assert(slot->cancels_in_flight);
	slot->cancels_in_flight--;
	if (slot->state != SLOT_BEING_CANCELED || slot->cancels_in_flight)
		return (struct verdict){.kind = VERDICT_NONE, .wake_us = UINT64_MAX};
	note_time(slot->pool, now_us);
	return release(slot, now_us);
}

/* See protocol.md 9.3. */
struct verdict pool_review(struct slot *slot, uint64_t now_us)
{
	struct pool *pool = slot->pool;

	if (slot->state != SLOT_IDLE && slot->state != SLOT_USED)
		return (struct verdict){.kind = VERDICT_NONE, .wake_us = UINT64_MAX};
	note_time(pool, now_us);
	if (pool->database->catalog->suspended)
		return rest_verdict(slot, now_us);
	uint64_t idle = scope_server_idle_timeout(scope_of_pool(pool));
	uint64_t rested = now_us - slot->rested_us;
	if (slot->dirty)
		return slot_retire(slot, error_text(ERROR_DATABASE_CHANGED));
	size_t least = (size_t)pool_min_size(pool);
	if (idle && rested >= idle &&
	    (!least || pool_connected_everywhere(pool) > least))
		return slot_retire(slot, "server idle timeout");
	/* a lifetime of 0 means one use, which ended at the release */
	if (scope_server_lifetime(scope_of_pool(pool)) &&
	    is_over_lifetime(slot, now_us) && !replace_first(slot, now_us))
		return slot_retire_for_lifetime(slot, now_us);
	if (pool_is_closing_for_pause(pool))
		return slot_retire(slot, "pause mode");
	if (slot->state == SLOT_IDLE && pool_has_check(pool) &&
	    rested >= scope_server_check_delay(scope_of_pool(pool)))
		slot_move(slot, SLOT_USED, now_us);
	return rest_verdict(slot, now_us);
}

/* ---- servers that come and go ---- */

void pool_dialing(struct pool *pool, struct slot *slot, uint64_t now_us)
{
	struct pool_request *request = slot->request;

	struct host *host = pool->balance.claimed;
	struct host *wanted = hosts_wanted(pool);

	if (!host)
		host = hosts_next(pool);
	note_time(pool, now_us);
	if (!hosts_are_judged(pool->database))
		hosts_hint(pool->database, host, NULL, now_us);
	if (host == wanted)
		pool->balance.wanted = 0;
	pool->balance.wants_room = false;
	pool->dial_us = now_us;
	pool->wants_probe = false;
	hosts_dial(pool, slot, host);
	if (pool->replacement.old && pool->replacement.stage == REPLACE_OPENING &&
	    !pool->replacement.fresh)
		pool->replacement.fresh = slot;
	slot_enter(pool, slot, SLOT_LOGIN, now_us);
	assert(!request || slot->is_replication);
	if (request)
		queue_link(request, slot, now_us);
}

struct verdict pool_logged_in(struct slot *slot, uint64_t now_us)
{
	struct pool *pool = slot->pool;

	assert(slot->state == SLOT_LOGIN);
	note_time(pool, now_us);
	pool->has_logged_in = true;
	latency_add(&pool->latency, LATENCY_CONNECT, now_us - slot->born_us);
	hosts_answered(slot);
	hosts_forgive(slot);
	failure_forget(&pool->failure);
	/* another connection may be opened now */
	pool_schedule(pool);
	if (slot->is_replication && slot->request && !slot->dirty) {
		slot_move(slot, SLOT_ACTIVE, now_us);
		return (struct verdict){
		    .kind = VERDICT_GRANT, .request = slot->request, .slot = slot};
	}
	struct verdict v = close_or_park(slot, now_us);
	/* nothing can have happened since it said that it is ready */
	slot->was_checked = true;
	if (v.kind == VERDICT_NONE && pool->replacement.fresh == slot &&
	    !exchange_has_waiting(pool)) {
		slot_move(slot, SLOT_TESTED, now_us);
		return (struct verdict){.kind = VERDICT_PREPARE,
		    .slot = slot,
		    .model = pool->replacement.old,
		    .wake_us = UINT64_MAX};
	}
	end_opening(slot);
	return v.kind != VERDICT_NONE ? v : settle(slot, now_us);
}

void pool_got_login_params(struct pool *pool)
{
	struct central_view *view = exchange_view(pool);
	unsigned number = 0;

	(void)central_write_login_params(view, pool->part.whole, &number, NULL);
	exchange_tell_waiting(view, pool->part.whole);
	pool_schedule(pool);
}

void pool_dial_failed(struct slot *slot, enum dial_failure kind, const char *text,
    const char *sqlstate, uint64_t now_us)
{
	struct pool *pool = slot->pool;
	/* The role may not replicate, which says nothing about other servers; and there
	 * may be no room for one that was to take the place of another. */
	bool is_login =
	    kind == DIAL_LOGIN || kind == DIAL_PASSWORD || kind == DIAL_TICKET;
	bool is_fresh = pool->replacement.fresh == slot;
	bool is_beside = is_fresh || (is_login && slot->is_replication);

	assert(slot->state == SLOT_LOGIN);
	note_time(pool, now_us);
	queue_unlink(slot);
	if (kind == DIAL_LOGIN || kind == DIAL_UNFIT)
		hosts_answered(slot);
	else if (kind == DIAL_PASSWORD || kind == DIAL_TICKET)
		hosts_note_error(slot, text);
	else
		hosts_failed(slot, text, pool_login_retry(pool), now_us);
	/* a host that refuses the login is like one that cannot be reached */
	if (is_login && !slot->is_replication && hosts_avoid(slot, text, now_us)) {
		slot_retire(slot, "");
		pool_schedule(pool);
		return;
	}
	/* another host may be tried at once */
	if (!is_login && hosts_has_candidate(pool, now_us)) {
		slot_retire(slot, "");
		return;
	}
	/* without a host that serves clients go on waiting for one */
	enum failure_kind failure = FAILURE_LOGIN;
	if (kind == DIAL_UNFIT || (!is_login && hosts_are_watched(pool->database)))
		failure = FAILURE_HOSTS;
	if (!is_beside)
		failure_note(&pool->failure, failure, text,
		    kind == DIAL_PASSWORD ? error_text(ERROR_NO_SERVER_PASSWORD) : text,
		    sqlstate);
	if (is_login && !is_beside)
		pool->failure.refuses_waiting =
		    !pool_connected_everywhere(pool) || !pool_has_login_params(pool);
	slot_retire(slot, pool->failure.text);
}

void pool_orphan(struct slot *slot, uint64_t now_us)
{
	assert(slot->state == SLOT_ACTIVE && !slot->is_replication);
	note_time(slot->pool, now_us);
	queue_unlink(slot);
}

/* Where another host serves, its next attempt may follow at once. */
static void count_as_failure(struct slot *slot)
{
	if (!slot->pool->failure.kind &&
	    (!slot->pool_host || !hosts_has_other(slot->pool, slot->pool_host->host)))
		slot->pool->failure.kind = FAILURE_LOST;
}

void pool_abandon(struct slot *slot, uint64_t now_us)
{
	uint64_t limit = scope_server_idle_timeout(scope_of_pool(slot->pool));

	note_time(slot->pool, now_us);
	queue_unlink(slot);
	/* a new one that fails its check in time counts as a failed attempt, so that
	 * the next does not follow at once; but not one that was to replace another */
	if (slot->state == SLOT_TESTED && !slot->was_lent &&
	    slot != slot->pool->replacement.fresh &&
	    (!limit || now_us - slot->tested_us < limit))
		count_as_failure(slot);
	if (slot->state != SLOT_LOGIN && slot->state != SLOT_NONE && !slot->was_lent)
		slot->pool->has_wasted = true;
	if (slot->state != SLOT_NONE)
		slot_retire(slot, "");
}

void pool_lose_unused(struct slot *slot, uint64_t now_us)
{
	/* a new connection counts as a failed attempt here, too */
	if (slot->born_us == slot->pool->dial_us && !slot->was_given_back)
		count_as_failure(slot);
	pool_abandon(slot, now_us);
}

void pool_dial_again(struct slot *slot, uint64_t now_us)
{
	assert(slot->state == SLOT_LOGIN);
	slot->pool->dial_us = 0;
	pool_abandon(slot, now_us);
}

void pool_gone(struct slot *slot, uint64_t now_us)
{
	if (!slot->pool)
		return;
	note_time(slot->pool, now_us);
	queue_unlink(slot);
	slot_leave(slot);
}

void pool_carried(struct slot *slot)
{
	slot->is_carried = false;
}

/* ---- cancel requests ---- */

bool pool_may_dial_cancel(const struct pool *pool)
{
	int size = pool_size(pool);

	/* a pause waits for running queries, so cancelling them must work even then */
	if (pool->is_killed)
		return false;
	/* One of each site is always allowed: servers of the reserve, or from before
	 * the limit was lowered, must not block all cancel requests. */
	return !size || pool_servers_everywhere(pool) < 2 * (size_t)size ||
	       list_is_empty(&pool->slots[SLOT_ACTIVE_CANCEL]);
}

void pool_dialing_cancel(struct pool *pool, struct slot *slot, uint64_t now_us)
{
	note_time(pool, now_us);
	if (slot->pool != pool)
		slot_enter(pool, slot, SLOT_ACTIVE_CANCEL, now_us);
	else
		slot_move(slot, SLOT_ACTIVE_CANCEL, now_us);
	/* clients that waited for its login need another connection; and a pool that
	 * has become full waits for no room under other limits */
	pool_schedule(pool);
}

/* ---- state ---- */

void pool_mark_dirty(struct pool *pool)
{
	struct slot *slot;

	for (int state = SLOT_NONE + 1; state < SLOT_STATE_COUNT; state++) {
		if (state == SLOT_ACTIVE_CANCEL)
			continue;
		list_for (slot, &pool->slots[state], node)
			slot_mark(slot, DIRTY_OLD);
	}
	central_forget_login_params(exchange_view(pool), pool->part.whole);
	pool_schedule(pool);
}

void pool_mark_slot_dirty(struct slot *slot, enum dirty why)
{
	slot_mark(slot, why);
	pool_schedule(slot->pool);
}

const char *pool_waits_for(const struct pool *pool)
{
	int size = pool_size(pool), limit;
	const char *lacked = conn_limits_lacked(pool, &limit);

	if (pool_is_paused(pool))
		return "pause";
	if (lacked)
		return lacked;
	if (size > 0 && pool_servers_everywhere(pool) >= (size_t)size)
		return "pool_size";
	return "connect";
}
