/*
 * Decides what happens next in a pool: which client is told something, which server is
 * closed, checked or opened.  Each call returns one verdict and changes what the next
 * call sees, so that repeated calls come to an end.  Whether a server is opened is
 * decided in pool_open.c.
 */
#include "pool/exchange.h"
#include "pool/pool_effective.h"
#include "pool/pool_open.h"
#include "pool/queue.h"
#include "pool/room.h"
#include "pool/seats.h"

static const struct verdict nothing = {.kind = VERDICT_NONE, .wake_us = UINT64_MAX};

static struct seat *first_seat(const struct pool *pool, enum seat_state state)
{
	struct node *first = list_first(&pool->seats[state]);

	return first ? container_of(first, struct seat, node) : NULL;
}

/* ---- servers that must go ---- */

static struct seat *find_dirty(
    const struct pool *pool, enum seat_state state, bool only_replication)
{
	struct seat *seat;

	list_for (seat, &pool->seats[state], node) {
		if (seat->is_dirty && (!only_replication || seat->is_replication))
			return seat;
	}
	return NULL;
}

/* Returns after the first dirty seat.  It is usually found at once, because a marking
 * concerns most seats. */
static struct verdict retire_dirty(struct pool *pool)
{
	struct seat *seat = find_dirty(pool, SEAT_LOGIN, false);

	if (seat)
		return seat_retire(seat, "connect string changed");
	seat = find_dirty(pool, SEAT_USED, false);
	if (!seat)
		seat = find_dirty(pool, SEAT_IDLE, false);
	if (!seat)
		seat = find_dirty(pool, SEAT_ACTIVE, true);
	if (seat)
		return seat_retire(seat, seat->is_misplaced
					     ? "its host has another role now"
					     : error_text(ERROR_DATABASE_CHANGED));
	pool->has_dirty = false;
	return nothing;
}

static struct verdict retire_for_pause(struct pool *pool)
{
	struct seat *seat = first_seat(pool, SEAT_USED);

	if (!seat)
		seat = first_seat(pool, SEAT_IDLE);
	if (!seat) {
		seat = first_seat(pool, SEAT_LOGIN);
		/* a connection that already has its client is kept */
		if (seat && seat->ask)
			seat = NULL;
	}
	return seat ? seat_retire(seat, "pause mode") : nothing;
}

static struct verdict shrink(struct pool *pool)
{
	struct seat *seat = pool_longest_resting(pool);

	if (seat)
		return seat_retire(seat, "too many servers in the pool");
	exchange_tell_resting(pool, NOTE_LOOK);
	return nothing;
}

/* ---- the queue ---- */

static struct verdict check_used(struct pool *pool, uint64_t now_us)
{
	struct seat *seat = first_seat(pool, SEAT_USED);

	if (seat->is_dirty)
		return seat_retire(seat, "obsolete connection");
	uint64_t delay = scope_server_check_delay(scope_of_pool(pool));
	/* the setting has changed meanwhile, so no check is needed */
	if (!pool_has_check(pool) || (delay && now_us - seat->rested_us < delay))
		return queue_grant(queue_first_seeker(pool), seat, now_us);
	seat_move(seat, SEAT_TESTED, now_us);
	seat->was_checked = true;
	return (struct verdict){
	    .kind = VERDICT_CHECK, .seat = seat, .wake_us = UINT64_MAX};
}

/* A server that rests here goes to another worker, whose client comes first. */
static struct verdict serve_others(struct pool *pool, uint64_t now_us)
{
	int worker = exchange_receiver(pool, queue_first_seeker(pool), now_us);
	struct seat *seat = worker < 0 ? NULL : queue_idle_seat(pool);

	if (worker >= 0 && !seat)
		seat = first_seat(pool, SEAT_USED);
	return seat && !seat->is_dirty ? seat_carry(seat, (unsigned)worker) : nothing;
}

static struct verdict serve_seekers(struct pool *pool, uint64_t now_us)
{
	if (exchange_has_waiting(pool)) {
		struct verdict v = serve_others(pool, now_us);
		if (v.kind != VERDICT_NONE)
			return v;
	}
	if (list_is_empty(&pool->part.seekers))
		return nothing;
	struct seat *seat = queue_idle_seat(pool);
	if (seat)
		return queue_grant(queue_first_seeker(pool), seat, now_us);
	if (!list_is_empty(&pool->seats[SEAT_USED]) &&
	    !pool_open_awaits_tests(pool, now_us))
		return check_used(pool, now_us);
	return nothing;
}

/* Clients that only wait for the welcome are admitted even while the pool is paused. */
static struct verdict admit(struct pool *pool, uint64_t now_us)
{
	struct node *first = list_first(&pool->newcomers);

	if (!first || !pool_has_welcome(pool))
		return nothing;
	struct ask *ask = container_of(first, struct ask, kind_node);
	queue_serve(ask, now_us);
	return (struct verdict){.kind = VERDICT_ADMIT, .ask = ask};
}

/* Returns the text for all waiting clients, or NULL. */
static const char *refusal_of_all(const struct pool *pool, const char **sqlstate)
{
	if (pool->failure.refuses_waiting && !pool->is_killed) {
		*sqlstate = pool->failure.sqlstate;
		return pool->failure.refusal;
	}
	if (!pool->is_killed && !pool->database->catalog->refuse_waiting &&
	    !pool->sends_away)
		return NULL;
	enum error_id id =
	    pool->is_killed ? ERROR_DATABASE_REMOVED : ERROR_SERVER_SHUTTING_DOWN;
	*sqlstate = error_sqlstate(id);
	return error_text(id);
}

static struct verdict refuse(struct pool *pool)
{
	struct ask *ask = queue_first(pool);
	const char *sqlstate, *text = refusal_of_all(pool, &sqlstate);

	if (ask && text)
		return queue_refuse(ask, text, sqlstate);
	pool->failure.refuses_waiting = pool->sends_away = false;
	return nothing;
}

static struct verdict next_while_running(struct pool *pool, uint64_t now_us)
{
	struct verdict v = serve_seekers(pool, now_us);

	if (v.kind == VERDICT_NONE && pool_is_oversized(pool))
		v = shrink(pool);
	struct seat *surplus = v.kind == VERDICT_NONE ? room_surplus(pool) : NULL;
	if (surplus)
		v = seat_retire(surplus, room_surplus_reason);
	return v.kind == VERDICT_NONE ? pool_open_next(pool, now_us) : v;
}

struct verdict pool_next(struct pool *pool, uint64_t now_us)
{
	struct verdict v = nothing;

	if (pool->database->is_admin)
		return v;
	catalog_note_time(pool->database->catalog, now_us);
	if (pool->has_dirty)
		v = retire_dirty(pool);
	if (v.kind == VERDICT_NONE && !pool->is_killed)
		v = admit(pool, now_us);
	if (v.kind == VERDICT_NONE)
		v = refuse(pool);
	if (v.kind != VERDICT_NONE)
		return v;
	if (pool->is_killed) {
		room_want(pool, 0);
		return v;
	}
	exchange_note(pool);
	if (!pool_is_paused(pool))
		return next_while_running(pool, now_us);
	room_want(pool, 0);
	pool->wants_probe = false;
	if (pool_is_closing_for_pause(pool))
		return retire_for_pause(pool);
	struct seat *seat = first_seat(pool, SEAT_USED);
	return seat ? seat_retire(seat, "close unsafe file descriptors on suspend")
		    : nothing;
}
