/*
 * Seats in their lists, and every count and list that depends on their state.  pool.c
 * and pool_next.c decide who may have which seat.
 */
#include "pool/seats.h"

#include <assert.h>

#include "pool/activity.h"
#include "pool/exchange.h"
#include "pool/idle.h"
#include "pool/pool_effective.h"
#include "pool/room.h"

#define RESTING (SEAT_BIT(IDLE) | SEAT_BIT(USED))

static const unsigned successors[SEAT_STATE_COUNT] = {
#define STATE(name, shown, socket, column, next, ...) [SEAT_##name] = (next),
#include "pool/states.def"
#undef STATE
};

static const char *const shown_names[SEAT_STATE_COUNT] = {
    [SEAT_NONE] = "",
#define STATE(name, shown, ...) [SEAT_##name] = (shown),
#include "pool/states.def"
#undef STATE
};

static const char *const socket_names[SEAT_STATE_COUNT] = {
    [SEAT_NONE] = "",
#define STATE(name, shown, socket, ...) [SEAT_##name] = (socket),
#include "pool/states.def"
#undef STATE
};

const char *seat_state_shown(enum seat_state state)
{
	return shown_names[state];
}

const char *seat_state_socket_shown(enum seat_state state)
{
	return socket_names[state];
}

static bool is_resting(enum seat_state state)
{
	return (1u << state) & RESTING;
}

static bool is_connected(enum seat_state state)
{
	return state != SEAT_NONE && state != SEAT_LOGIN && state != SEAT_ACTIVE_CANCEL;
}

/* Changes the counts that other workers read, see central.h.  One that goes to or comes
 * from another worker is connected for all of them the whole time. */
static void count_for_all(
    const struct seat *seat, enum seat_state before, enum seat_state after)
{
	const struct catalog *c = seat->pool->database->catalog;
	struct central_part *part = &seat->pool->part;
	int connected = is_connected(after) - is_connected(before);
	int resting = is_resting(after) - is_resting(before);

	if (connected)
		central_add_own(&part->connected, connected);
	if (connected && !seat->is_carried)
		atomic_fetch_add(&part->whole->connected, connected);
	if (part->is_alone)
		return;
	if (after == SEAT_ACTIVE && c->activity && seat->ask && seat->ask->is_logged_in)
		activity_note(c->activity, seat->ask);
	if (!resting)
		return;
	for (enum room_kind kind = 0; kind < ROOM_COUNT; kind++)
		central_add_own(
		    &part->whole->limits[kind]->lines[part->worker].resting, resting);
	/* sequentially consistent, see exchange.c */
	atomic_fetch_add(&part->resting, resting);
}

static void put_into_list(struct seat *seat, enum seat_state state)
{
	struct list *l = &seat->pool->seats[state];
	/* usually the seat used last is lent next; with server_round_robin they take
	 * turns */
	bool to_front = state == SEAT_USED ||
			(state == SEAT_IDLE &&
			    !scope_server_round_robin(scope_of_pool(seat->pool)));

	count_for_all(seat, seat->state, state);
	seat->state = state;
	hosts_seat_comes(seat, to_front);
	if (to_front)
		list_push_front(l, &seat->node);
	else
		list_push_back(l, &seat->node);
}

static void leave_resting_lists(struct seat *seat)
{
	list_remove(&seat->pool->database->resting, &seat->db_node);
	list_remove(&seat->pool->user->resting, &seat->user_node);
}

static void count_here(const struct pool *pool, int change)
{
	pool->user->server_count += change;
	pool->database->server_count += change;
}

void seat_enter(
    struct pool *pool, struct seat *seat, enum seat_state state, uint64_t now_us)
{
	assert(!seat->pool && !node_is_linked(&seat->node));
	assert(state == SEAT_LOGIN || state == SEAT_ACTIVE_CANCEL);
	seat->pool = pool;
	seat->born_us = now_us;
	seat->cancels_in_flight = 0;
	seat->is_dirty = seat->is_misplaced = seat->was_checked = seat->was_lent =
	    false;
	put_into_list(seat, state);
	count_here(pool, 1);
	if (!seat->is_carried)
		room_take(pool, state == SEAT_ACTIVE_CANCEL);
	idle_note_pool(pool);
	idle_note_database(pool->database);
}

void seat_move(struct seat *seat, enum seat_state state, uint64_t now_us)
{
	struct pool *pool = seat->pool;
	bool was_resting = is_resting(seat->state);

	assert(successors[seat->state] & (1u << state));
	hosts_seat_goes(seat);
	list_remove(&pool->seats[seat->state], &seat->node);
	put_into_list(seat, state);
	if (state == SEAT_TESTED)
		seat->tested_us = now_us;
	if (was_resting && !is_resting(state))
		leave_resting_lists(seat);
	if (state == SEAT_ACTIVE_CANCEL) {
		room_give(pool, false);
		room_take(pool, true);
	}
	room_note(pool);
	if (was_resting || !is_resting(state))
		return;
	seat->rested_us = now_us;
	list_push_back(&pool->database->resting, &seat->db_node);
	list_push_back(&pool->user->resting, &seat->user_node);
	/* A seat has come to rest: tells all who could make use of it.  These are a
	 * client that waits for it to be checked or closed, the pool itself when it has
	 * shrunk or must have none at rest, and pools that wait for room. */
	if (!list_is_empty(&pool->waiting) || exchange_has_waiting(pool) ||
	    pool_is_oversized(pool) || pool_is_paused(pool))
		pool_kick(pool);
	room_offer(pool);
}

/* Takes the seat out of all counts. */
static void take_out(struct seat *seat)
{
	struct pool *pool = seat->pool;

	list_remove(&pool->seats[seat->state], &seat->node);
	if (seat->state == SEAT_NONE)
		return;
	if (is_resting(seat->state))
		leave_resting_lists(seat);
	hosts_seat_goes(seat);
	hosts_seat_ends(seat);
	bool is_cancel = seat->state == SEAT_ACTIVE_CANCEL;
	count_for_all(seat, seat->state, SEAT_NONE);
	seat->state = SEAT_NONE;
	count_here(pool, -1);
	if (!seat->is_carried)
		room_give(pool, is_cancel);
	pool_kick(pool);
	idle_note_database(pool->database);
}

struct verdict seat_retire(struct seat *seat, const char *reason)
{
	assert(seat->state != SEAT_NONE);
	take_out(seat);
	list_push_back(&seat->pool->seats[SEAT_NONE], &seat->node);
	return (struct verdict){
	    .kind = VERDICT_RETIRE, .seat = seat, .ask = seat->ask, .text = reason};
}

struct verdict seat_carry(struct seat *seat, unsigned site)
{
	seat->is_carried = true;
	seat->carried_as = is_resting(seat->state) ? seat->state : SEAT_IDLE;
	seat->carried_to = site;
	exchange_lock(seat->pool);
	struct central_place *place = &seat->pool->part.whole->places[site];
	place->arriving++;
	place->arriving_us = seat->pool->database->catalog->seen_us;
	/* it has just logged in */
	if (!is_connected(seat->state))
		atomic_fetch_add(&seat->pool->part.whole->connected, 1);
	take_out(seat);
	exchange_unlock(seat->pool);
	list_push_back(&seat->pool->seats[SEAT_NONE], &seat->node);
	return (struct verdict){
	    .kind = VERDICT_HAND, .seat = seat, .site = site, .wake_us = UINT64_MAX};
}

void seat_leave(struct seat *seat)
{
	struct pool *pool = seat->pool;

	take_out(seat);
	/* it was lost on its way to another worker */
	if (seat->is_carried) {
		exchange_lock(pool);
		pool->part.whole->places[seat->carried_to].arriving--;
		atomic_fetch_sub(&pool->part.whole->connected, 1);
		room_uncount(exchange_view(pool), pool->part.whole, false);
		exchange_unlock(pool);
		pool_kick(pool);
	}
	seat->is_carried = false;
	seat->pool = NULL;
	idle_note_pool(pool);
}
