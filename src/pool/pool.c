/*
 * Clients join, ask and leave; servers are lent, given back, tested and lost.
 * pool_next.c decides everything else that the queue needs: connecting, evicting,
 * refusing.
 */
#include "pool/pool.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/time_us.h"
#include "pool/activity.h"
#include "pool/exchange.h"
#include "pool/hosts_role.h"
#include "pool/idle.h"
#include "pool/pool_effective.h"
#include "pool/queue.h"
#include "pool/room.h"
#include "pool/scopes.h"
#include "pool/seats.h"

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
	room_note(pool);
}

void pool_join(struct pool *pool, struct ask *ask)
{
	assert(ask->state == ASK_OUTSIDE);
	ask->pool = pool;
	ask->state = ASK_RESTING;
	list_push_back(&pool->clients, &ask->node);
	note_clients(pool, 1);
	if (pool_is_undersized(pool))
		pool_kick(pool);
}

void pool_part(struct ask *ask)
{
	struct pool *pool = ask->pool;

	if (ask->state == ASK_OUTSIDE)
		return;
	pool_withdraw(ask);
	assert(ask->state == ASK_RESTING);
	if (pool->database->catalog->activity)
		activity_leave(pool->database->catalog->activity, ask);
	list_remove(&pool->clients, &ask->node);
	ask->state = ASK_OUTSIDE;
	ask->pool = NULL;
	note_time(pool, ask->last_us);
	note_clients(pool, -1);
}

void pool_withdraw(struct ask *ask)
{
	if (ask->state != ASK_WAITING)
		return;
	queue_remove(ask);
	/* the next client in the queue may need something else, or room may no longer
	 * be needed */
	pool_kick(ask->pool);
}

/* protocol.md 10.4: the last login failed, and there is no server to wait for, at any
 * site. */
static bool is_failing_fast(const struct ask *ask, enum ask_kind kind)
{
	const struct pool *pool = ask->pool;

	/* with several hosts there is always something to wait for */
	if (pool->failure.kind != FAILURE_LOGIN || pool_connected_everywhere(pool) > 0)
		return false;
	return kind == ASK_AUTH || (kind == ASK_QUERY && ask->is_logged_in);
}

/* How many clients may wait; 0: there is no limit.  Who waits for a moment only does
 * not count: for a welcome that is known, or for a server that rests at some site or is
 * on its way. */
static int most_waiting(const struct pool *pool, enum ask_kind kind)
{
	int limit = scope_max_waiting_clients(scope_of_pool(pool));

	if (limit <= 0 || (kind == ASK_WELCOME && pool_has_welcome(pool)))
		return 0;
	if (kind == ASK_REPLICATION || pool_is_paused(pool))
		return limit;
	return limit + exchange_available(pool);
}

static struct verdict wait_in_queue(
    struct ask *ask, enum ask_kind kind, uint64_t now_us)
{
	struct pool *pool = ask->pool;

	bool is_greeted = kind == ASK_WELCOME && pool_has_welcome(pool);
	if (pool->database->catalog->refuse_waiting && !is_greeted)
		return queue_refuse_for(ask, ERROR_SERVER_SHUTTING_DOWN);
	if (!queue_add(ask, kind, most_waiting(pool, kind), now_us)) {
		struct verdict v = queue_refuse_for(ask, ERROR_TOO_MANY_WAITING);
		v.is_full = true;
		return v;
	}
	/* while others wait for a server as well, this client changes nothing */
	bool is_one_more = (kind == ASK_QUERY || kind == ASK_AUTH) &&
			   pool->part.seekers.count > 1 &&
			   list_is_empty(&pool->seats[SEAT_TESTED]);
	if (!is_one_more)
		pool_kick(pool);
	return (struct verdict){
	    .kind = VERDICT_WAIT, .ask = ask, .wake_us = UINT64_MAX};
}

struct verdict pool_ask(struct ask *ask, enum ask_kind kind, uint64_t now_us)
{
	struct pool *pool = ask->pool;

	assert(ask->state == ASK_RESTING);
	note_time(pool, now_us);
	ask->kind = kind;
	if (pool->is_killed)
		return queue_refuse_for(ask, ERROR_DATABASE_REMOVED);
	if (kind == ASK_WELCOME || kind == ASK_REPLICATION || pool_is_paused(pool))
		return wait_in_queue(ask, kind, now_us);
	struct seat *seat = queue_idle_seat(pool);
	if (seat && list_is_empty(&pool->part.seekers) &&
	    (!exchange_has_waiting(pool) || exchange_receiver(pool, NULL, now_us) < 0))
		return queue_grant(ask, seat, now_us);
	if (!seat && is_failing_fast(ask, kind)) {
		if (now_us - pool->dial_us >= pool_login_retry(pool)) {
			pool->wants_probe = true;
			pool_kick(pool);
		}
		return queue_refuse(ask, pool->failure.fast,
		    error_sqlstate(ERROR_SERVER_LOGIN_FAILING));
	}
	return wait_in_queue(ask, kind, now_us);
}

uint64_t pool_max_wait(const struct pool *pool, uint64_t now_us)
{
	const struct ask *ask = queue_first(pool);

	if (!ask)
		return 0;
	/* a client that logs in has no query */
	uint64_t since = ask->query_us ? ask->query_us : ask->queued_us;
	return since && since < now_us ? now_us - since : 0;
}

uint64_t pool_last_attempt(const struct pool *pool, const char **failure)
{
	*failure = pool->failure.text[0] ? pool->failure.text : NULL;
	return pool->seats[SEAT_LOGIN].count ? 0 : pool->dial_us;
}

/* ---- servers at rest ---- */

static bool is_over_lifetime(const struct seat *seat, uint64_t now_us)
{
	const struct pool *pool = seat->pool;

	if (now_us - seat->born_us < scope_server_lifetime(scope_of_pool(pool)))
		return false;
	return !pool->lifetime_closed_us ||
	       now_us - pool->lifetime_closed_us >= pool_lifetime_spacing(pool);
}

static struct verdict retire_for_lifetime(struct seat *seat, uint64_t now_us)
{
	seat->pool->lifetime_closed_us = now_us;
	return seat_retire(seat, "server lifetime over");
}

/* The time of the next pool_review of a resting seat. */
static uint64_t review_time(const struct seat *seat, uint64_t now_us)
{
	const struct pool *pool = seat->pool;
	struct scope scope = scope_of_pool(pool);
	uint64_t idle = scope_server_idle_timeout(scope);
	uint64_t lifetime = scope_server_lifetime(scope_of_pool(pool));
	uint64_t at = UINT64_MAX;

	if (pool->database->catalog->suspended)
		return now_us + 1000000;
	if (lifetime)
		at = time_later(seat->born_us + lifetime,
		    pool->lifetime_closed_us
			? pool->lifetime_closed_us + pool_lifetime_spacing(pool)
			: 0);
	if (idle) {
		uint64_t due = seat->rested_us + idle;
		/* min_pool_size keeps it; no event tells when that ends */
		if (due <= now_us)
			due = now_us + idle;
		at = time_earlier(at, due);
	}
	if (seat->state == SEAT_IDLE && pool_has_check(pool))
		at =
		    time_earlier(at, seat->rested_us + scope_server_check_delay(scope));
	return at;
}

static struct verdict rest_verdict(struct seat *seat, uint64_t now_us)
{
	return (struct verdict){
	    .kind = VERDICT_REST, .seat = seat, .wake_us = review_time(seat, now_us)};
}

/* A connection to another host is wanted, and the limits leave no room for it. */
static bool makes_room_for_host(const struct seat *seat)
{
	struct pool *pool = seat->pool;

	if (!pool->balance.wants_room || !seat->was_lent || pool_is_paused(pool))
		return false;
	const struct host *host = hosts_wanted(pool);
	if (!host || !hosts_may_spare(seat, host))
		return false;
	pool->balance.wants_room = false;
	return true;
}

/* The first in the queue is a replication client, which needs a connection of its own
 * and lacks the room for it.  The server's next client came later. */
static bool makes_room_for_replica(const struct seat *seat)
{
	const struct pool *pool = seat->pool;
	const struct ask *first = queue_first(pool);
	int size = pool_size(pool);

	if (!first || !seat->was_lent || pool->failure.kind ||
	    first->kind != ASK_REPLICATION)
		return false;
	return room_is_wanted(pool) ||
	       (size > 0 && pool_servers_everywhere(pool) >= (size_t)size);
}

/* Ready for the next client, or to be checked before that. */
static struct verdict settle(struct seat *seat, uint64_t now_us)
{
	struct pool *pool = seat->pool;

	if (pool->is_killed)
		return seat_retire(seat, error_text(ERROR_DATABASE_REMOVED));
	if (pool_is_closing_for_pause(pool))
		return seat_retire(seat, "pause mode");
	if (room_is_exceeded(pool))
		return seat_retire(seat, room_surplus_reason);
	bool is_paused = pool_is_paused(pool);
	struct ask *ask = is_paused ? NULL : queue_first_seeker(pool);
	/* One that is new was opened when it was this pool's turn. */
	if (!is_paused && seat->was_lent && room_is_owed(pool, now_us))
		return seat_retire(seat, "evicted");
	if (!is_paused && makes_room_for_replica(seat))
		return seat_retire(seat, "evicted");
	bool is_checked_always =
	    !scope_server_check_delay(scope_of_pool(pool)) && pool_has_check(pool);
	if (is_checked_always && !(ask && seat->was_checked)) {
		seat_move(seat, SEAT_USED, now_us);
		return rest_verdict(seat, now_us);
	}
	int receiver =
	    exchange_has_waiting(pool) ? exchange_receiver(pool, ask, now_us) : -1;
	if (receiver >= 0) {
		seat->rested_us = now_us;
		return seat_carry(seat, (unsigned)receiver);
	}
	if (makes_room_for_host(seat))
		return seat_retire(seat, "another host is due");
	if (ask)
		return queue_grant(ask, seat, now_us);
	seat_move(seat, SEAT_IDLE, now_us);
	return rest_verdict(seat, now_us);
}

/* The steps of a release that every seat goes through, wherever it comes from. */
static struct verdict close_or_park(struct seat *seat, uint64_t now_us)
{
	if (seat->is_dirty)
		return seat_retire(seat, "close_needed");
	if (!seat->cancels_in_flight)
		return (struct verdict){.kind = VERDICT_NONE, .wake_us = UINT64_MAX};
	seat_move(seat, SEAT_BEING_CANCELED, now_us);
	return (struct verdict){
	    .kind = VERDICT_PARK, .seat = seat, .wake_us = UINT64_MAX};
}

static bool has_reset(const struct pool *pool)
{
	const char *query = scope_server_reset_query(scope_of_pool(pool));

	return query && *query;
}

/* What happens after use: protocol.md 9.2. */
static struct verdict release(struct seat *seat, uint64_t now_us)
{
	struct pool *pool = seat->pool;

	if (seat->is_replication)
		return seat_retire(seat, "replication client was closed");
	if (is_over_lifetime(seat, now_us))
		return retire_for_lifetime(seat, now_us);
	struct verdict v = close_or_park(seat, now_us);
	if (v.kind != VERDICT_NONE)
		return v;
	if (seat->needs_reset && !has_reset(pool))
		return seat_retire(seat, "session state was left behind");
	if (!has_reset(pool))
		return settle(seat, now_us);
	if (!seat->needs_reset &&
	    !scope_server_reset_query_always(scope_of_pool(pool)) &&
	    pool_mode(pool) != POOL_MODE_SESSION)
		return settle(seat, now_us);
	seat->was_checked = false;
	seat->needs_reset = false;
	seat_move(seat, SEAT_TESTED, now_us);
	queue_review_room(pool);
	return (struct verdict){
	    .kind = VERDICT_RESET, .seat = seat, .wake_us = UINT64_MAX};
}

struct verdict pool_give(struct seat *seat, uint64_t now_us)
{
	assert(seat->state == SEAT_ACTIVE);
	note_time(seat->pool, now_us);
	queue_unlink(seat);
	return release(seat, now_us);
}

struct verdict pool_tested(struct seat *seat, uint64_t now_us)
{
	assert(seat->state == SEAT_TESTED);
	note_time(seat->pool, now_us);
	struct verdict v = close_or_park(seat, now_us);
	return v.kind != VERDICT_NONE ? v : settle(seat, now_us);
}

struct verdict pool_cancel_done(struct seat *seat, uint64_t now_us)
{
	assert(seat->cancels_in_flight);
	seat->cancels_in_flight--;
	if (seat->state != SEAT_BEING_CANCELED || seat->cancels_in_flight)
		return (struct verdict){.kind = VERDICT_NONE, .wake_us = UINT64_MAX};
	note_time(seat->pool, now_us);
	return release(seat, now_us);
}

/* See protocol.md 9.3. */
struct verdict pool_review(struct seat *seat, uint64_t now_us)
{
	struct pool *pool = seat->pool;

	if (seat->state != SEAT_IDLE && seat->state != SEAT_USED)
		return (struct verdict){.kind = VERDICT_NONE, .wake_us = UINT64_MAX};
	note_time(pool, now_us);
	if (pool->database->catalog->suspended)
		return rest_verdict(seat, now_us);
	uint64_t idle = scope_server_idle_timeout(scope_of_pool(pool));
	uint64_t rested = now_us - seat->rested_us;
	if (seat->is_dirty)
		return seat_retire(seat, error_text(ERROR_DATABASE_CHANGED));
	size_t least = (size_t)pool_min_size(pool);
	if (idle && rested >= idle &&
	    (!least || pool_connected_everywhere(pool) > least))
		return seat_retire(seat, "server idle timeout");
	/* a lifetime of 0 means one use, which ended at the release */
	if (scope_server_lifetime(scope_of_pool(pool)) &&
	    is_over_lifetime(seat, now_us))
		return retire_for_lifetime(seat, now_us);
	if (pool_is_closing_for_pause(pool))
		return seat_retire(seat, "pause mode");
	if (seat->state == SEAT_IDLE && pool_has_check(pool) &&
	    rested >= scope_server_check_delay(scope_of_pool(pool)))
		seat_move(seat, SEAT_USED, now_us);
	return rest_verdict(seat, now_us);
}

/* ---- servers that come and go ---- */

void pool_dialing(struct pool *pool, struct seat *seat, uint64_t now_us)
{
	struct ask *ask = seat->ask;

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
	hosts_dial(pool, seat, host);
	seat_enter(pool, seat, SEAT_LOGIN, now_us);
	assert(!ask || seat->is_replication);
	if (ask)
		queue_link(ask, seat, now_us);
}

struct verdict pool_logged_in(struct seat *seat, uint64_t now_us)
{
	struct pool *pool = seat->pool;

	assert(seat->state == SEAT_LOGIN);
	note_time(pool, now_us);
	pool->has_logged_in = true;
	latency_add(&pool->latency, LATENCY_CONNECT, now_us - seat->born_us);
	hosts_answered(seat);
	hosts_forgive(seat);
	failure_forget(&pool->failure);
	/* another connection may be opened now */
	pool_kick(pool);
	if (seat->is_replication && seat->ask && !seat->is_dirty) {
		seat_move(seat, SEAT_ACTIVE, now_us);
		return (struct verdict){
		    .kind = VERDICT_GRANT, .ask = seat->ask, .seat = seat};
	}
	struct verdict v = close_or_park(seat, now_us);
	/* nothing can have happened since it said that it is ready */
	seat->was_checked = true;
	return v.kind != VERDICT_NONE ? v : settle(seat, now_us);
}

void pool_welcomed(struct pool *pool)
{
	struct central_view *view = exchange_view(pool);
	unsigned number = 0;

	(void)central_write_welcome(view, pool->part.whole, &number, NULL);
	exchange_tell_waiting(view, pool->part.whole);
	pool_kick(pool);
}

void pool_dial_failed(struct seat *seat, enum dial_failure kind, const char *text,
    const char *sqlstate, uint64_t now_us)
{
	struct pool *pool = seat->pool;
	/* the role may not replicate, which says nothing about other servers */
	bool is_beside = kind == DIAL_LOGIN && seat->is_replication;

	assert(seat->state == SEAT_LOGIN);
	note_time(pool, now_us);
	queue_unlink(seat);
	if (kind == DIAL_LOGIN || kind == DIAL_UNFIT)
		hosts_answered(seat);
	else
		hosts_failed(seat, text, pool_login_retry(pool), now_us);
	/* a host that refuses the login is like one that cannot be reached */
	if (kind == DIAL_LOGIN && !seat->is_replication &&
	    hosts_avoid(seat, text, now_us)) {
		seat_retire(seat, "");
		pool_kick(pool);
		return;
	}
	/* another host may be tried at once */
	if (kind != DIAL_LOGIN && hosts_has_candidate(pool, now_us)) {
		seat_retire(seat, "");
		return;
	}
	/* without a host that serves clients go on waiting for one */
	enum failure_kind failure = FAILURE_LOGIN;
	if (kind == DIAL_UNFIT ||
	    (kind != DIAL_LOGIN && hosts_are_watched(pool->database)))
		failure = FAILURE_HOSTS;
	if (!is_beside)
		failure_note(&pool->failure, failure, text, sqlstate);
	if (kind == DIAL_LOGIN && !is_beside)
		pool->failure.refuses_waiting =
		    !pool_connected_everywhere(pool) || !pool_has_welcome(pool);
	seat_retire(seat, pool->failure.text);
}

void pool_orphan(struct seat *seat, uint64_t now_us)
{
	assert(seat->state == SEAT_ACTIVE && !seat->is_replication);
	note_time(seat->pool, now_us);
	queue_unlink(seat);
}

/* Where another host serves, its next attempt may follow at once. */
static void count_as_failure(struct seat *seat)
{
	if (!seat->pool->failure.kind &&
	    (!seat->pool_host || !hosts_has_other(seat->pool, seat->pool_host->host)))
		seat->pool->failure.kind = FAILURE_LOST;
}

void pool_abandon(struct seat *seat, uint64_t now_us)
{
	note_time(seat->pool, now_us);
	queue_unlink(seat);
	/* a new connection that fails its check counts as a failed attempt, so that the
	 * next one does not follow at once */
	if (seat->state == SEAT_TESTED && !seat->was_lent)
		count_as_failure(seat);
	if (seat->state != SEAT_LOGIN && seat->state != SEAT_NONE && !seat->was_lent)
		seat->pool->has_wasted = true;
	if (seat->state != SEAT_NONE)
		seat_retire(seat, "");
}

void pool_lose_unused(struct seat *seat, uint64_t now_us)
{
	/* a new connection counts as a failed attempt here, too */
	if (seat->born_us == seat->pool->dial_us)
		count_as_failure(seat);
	pool_abandon(seat, now_us);
}

void pool_dial_again(struct seat *seat, uint64_t now_us)
{
	assert(seat->state == SEAT_LOGIN);
	seat->pool->dial_us = 0;
	pool_abandon(seat, now_us);
}

void pool_gone(struct seat *seat, uint64_t now_us)
{
	if (!seat->pool)
		return;
	note_time(seat->pool, now_us);
	queue_unlink(seat);
	seat_leave(seat);
}

void pool_carried(struct seat *seat)
{
	seat->is_carried = false;
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
	       list_is_empty(&pool->seats[SEAT_ACTIVE_CANCEL]);
}

void pool_dialing_cancel(struct pool *pool, struct seat *seat, uint64_t now_us)
{
	note_time(pool, now_us);
	if (seat->pool != pool)
		seat_enter(pool, seat, SEAT_ACTIVE_CANCEL, now_us);
	else
		seat_move(seat, SEAT_ACTIVE_CANCEL, now_us);
	/* clients that waited for its login need another connection; and a pool that
	 * has become full waits for no room under other limits */
	pool_kick(pool);
}

/* ---- state ---- */

void pool_mark_dirty(struct pool *pool)
{
	struct seat *seat;

	for (int state = SEAT_NONE + 1; state < SEAT_STATE_COUNT; state++) {
		if (state == SEAT_ACTIVE_CANCEL)
			continue;
		list_for (seat, &pool->seats[state], node)
			seat->is_dirty = true;
	}
	pool->has_dirty = true;
	central_forget_welcome(exchange_view(pool), pool->part.whole);
	pool_kick(pool);
}

void pool_mark_seat_dirty(struct seat *seat)
{
	seat->is_dirty = true;
	seat->pool->has_dirty = true;
	pool_kick(seat->pool);
}

const char *pool_waits_for(const struct pool *pool)
{
	int size = pool_size(pool), limit;
	const char *lacked = room_lacked(pool, &limit);

	if (pool_is_paused(pool))
		return "pause";
	if (lacked)
		return lacked;
	if (size > 0 && pool_servers_everywhere(pool) >= (size_t)size)
		return "pool_size";
	return "connect";
}
