/*
 * Slots in their lists, and every count and list that depends on their state.  pool.c
 * and pool_next.c decide who may have which slot.
 */
#include "pool/slots.h"

#include <assert.h>

#include "pool/activity.h"
#include "pool/conn_limits.h"
#include "pool/exchange.h"
#include "pool/idle.h"
#include "pool/pool_effective.h"

/* For how long no server of a pool is replaced before it is closed, because the last
 * attempt has failed: PostgreSQL may have no room for one more. */
enum { REPLACE_RETRY_US = 60000000 };

#define RESTING (SLOT_BIT(IDLE) | SLOT_BIT(USED))

static const unsigned successors[SLOT_STATE_COUNT] = {
#define STATE(name, shown, socket, column, next, ...) [SLOT_##name] = (next),
#include "pool/states.def"
#undef STATE
};

static const char *const shown_names[SLOT_STATE_COUNT] = {
    [SLOT_NONE] = "",
#define STATE(name, shown, ...) [SLOT_##name] = (shown),
#include "pool/states.def"
#undef STATE
};

static const char *const socket_names[SLOT_STATE_COUNT] = {
    [SLOT_NONE] = "",
#define STATE(name, shown, socket, ...) [SLOT_##name] = (socket),
#include "pool/states.def"
#undef STATE
};

const char *slot_state_shown(enum slot_state state)
{
	return shown_names[state];
}

const char *slot_state_socket_shown(enum slot_state state)
{
	return socket_names[state];
}

static bool is_resting(enum slot_state state)
{
	return (1u << state) & RESTING;
}

static bool is_connected(enum slot_state state)
{
	return state != SLOT_NONE && state != SLOT_LOGIN && state != SLOT_ACTIVE_CANCEL;
}

/* Changes the counts that other workers read, see central.h.  One that goes to or comes
 * from another worker is connected for all of them the whole time. */
static void count_for_all(
    const struct slot *slot, enum slot_state before, enum slot_state after)
{
	const struct catalog *c = slot->pool->database->catalog;
	struct central_part *part = &slot->pool->part;
	int connected = is_connected(after) - is_connected(before);
	int resting = is_resting(after) - is_resting(before);

	if (connected)
		central_add_own(&part->connected, connected);
	if (connected && !slot->is_carried)
		atomic_fetch_add(&part->whole->connected, connected);
	if (part->is_alone)
		return;
	if (after == SLOT_ACTIVE && c->activity && slot->request &&
	    slot->request->is_logged_in)
		activity_note(c->activity, slot->request);
	if (!resting)
		return;
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		central_add_own(
		    &part->whole->limits[kind]->lines[part->worker].resting, resting);
	/* sequentially consistent, see exchange.c */
	atomic_fetch_add(&part->resting, resting);
}

static void put_into_list(struct slot *slot, enum slot_state state)
{
	struct list *l = &slot->pool->slots[state];
	/* usually the slot used last is lent next; with server_round_robin they take
	 * turns */
	bool to_front = state == SLOT_USED ||
			(state == SLOT_IDLE &&
			    !scope_server_round_robin(scope_of_pool(slot->pool)));

	count_for_all(slot, slot->state, state);
	slot->state = state;
	hosts_slot_comes(slot, to_front);
	if (to_front)
		list_push_front(l, &slot->node);
	else
		list_push_back(l, &slot->node);
}

static void leave_resting_lists(struct slot *slot)
{
	list_remove(&slot->pool->database->resting, &slot->db_node);
	list_remove(&slot->pool->user->resting, &slot->user_node);
}

static void count_here(const struct pool *pool, int change)
{
	pool->user->server_count += change;
	pool->database->server_count += change;
}

void slot_enter(
    struct pool *pool, struct slot *slot, enum slot_state state, uint64_t now_us)
{
	assert(!slot->pool && !node_is_linked(&slot->node));
	assert(state == SLOT_LOGIN || state == SLOT_ACTIVE_CANCEL);
	slot->pool = pool;
	slot->born_us = now_us;
	slot->cancels_in_flight = 0;
	slot->dirty = DIRTY_NOT;
	slot->was_checked = slot->was_lent = slot->was_given_back = false;
	put_into_list(slot, state);
	count_here(pool, 1);
	if (!slot->is_carried)
		conn_limits_take(pool, state == SLOT_ACTIVE_CANCEL);
	idle_note_pool(pool);
	idle_note_database(pool->database);
}

void slot_move(struct slot *slot, enum slot_state state, uint64_t now_us)
{
	struct pool *pool = slot->pool;
	bool was_resting = is_resting(slot->state);

	assert(successors[slot->state] & (1u << state));
	hosts_slot_goes(slot);
	list_remove(&pool->slots[slot->state], &slot->node);
	put_into_list(slot, state);
	if (state == SLOT_TESTED)
		slot->tested_us = now_us;
	if (was_resting && !is_resting(state))
		leave_resting_lists(slot);
	if (state == SLOT_ACTIVE_CANCEL) {
		conn_limits_give(pool, false);
		conn_limits_take(pool, true);
	}
	conn_limits_note(pool);
	if (was_resting || !is_resting(state))
		return;
	slot->rested_us = now_us;
	list_push_back(&pool->database->resting, &slot->db_node);
	list_push_back(&pool->user->resting, &slot->user_node);
	/* A slot has come to rest: tells all who could make use of it.  These are a
	 * client that waits for it to be checked or closed, the pool itself when it has
	 * shrunk or must have none at rest, and pools that wait for room. */
	if (!list_is_empty(&pool->waiting) || exchange_has_waiting(pool) ||
	    pool_is_oversized(pool) || pool_is_paused(pool))
		pool_schedule(pool);
	conn_limits_offer(pool);
}

/* Takes the slot out of all counts. */
static void take_out(struct slot *slot)
{
	struct pool *pool = slot->pool;
	struct pool_replacement *r = &pool->replacement;

	/* an old server that leaves needs no other one; where the new one is lost, the
	 * old one is closed without */
	if (r->fresh == slot) {
		r->fresh = NULL;
		r->stage = REPLACE_DUE;
		r->retry_us = pool->database->catalog->seen_us + REPLACE_RETRY_US;
	}
	if (r->old == slot)
		r->old = r->fresh = NULL;
	list_remove(&pool->slots[slot->state], &slot->node);
	if (slot->state == SLOT_NONE)
		return;
	if (is_resting(slot->state))
		leave_resting_lists(slot);
	hosts_slot_goes(slot);
	hosts_slot_ends(slot);
	bool is_cancel = slot->state == SLOT_ACTIVE_CANCEL;
	count_for_all(slot, slot->state, SLOT_NONE);
	slot->state = SLOT_NONE;
	count_here(pool, -1);
	if (!slot->is_carried)
		conn_limits_give(pool, is_cancel);
	pool_schedule(pool);
	idle_note_database(pool->database);
}

struct verdict slot_retire(struct slot *slot, const char *reason)
{
	assert(slot->state != SLOT_NONE);
	take_out(slot);
	list_push_back(&slot->pool->slots[SLOT_NONE], &slot->node);
	return (struct verdict){.kind = VERDICT_RETIRE,
	    .slot = slot,
	    .request = slot->request,
	    .text = reason};
}

struct verdict slot_retire_for_lifetime(struct slot *slot, uint64_t now_us)
{
	slot->pool->replacement.closed_us = now_us;
	slot->pool->replacement.old = slot->pool->replacement.fresh = NULL;
	return slot_retire(slot, "server lifetime over");
}

struct verdict slot_carry(struct slot *slot, unsigned site)
{
	slot->is_carried = true;
	slot->carried_as = is_resting(slot->state) ? slot->state : SLOT_IDLE;
	slot->carried_to = site;
	exchange_lock(slot->pool);
	struct central_place *place = &slot->pool->part.whole->places[site];
	place->arriving++;
	place->arriving_us = slot->pool->database->catalog->seen_us;
	assert(!slot->carried_from);
	slot->carried_from = central_host_carry(
	    exchange_view(slot->pool), slot->pool_host->host->shared);
	/* it has just logged in */
	if (!is_connected(slot->state))
		atomic_fetch_add(&slot->pool->part.whole->connected, 1);
	take_out(slot);
	exchange_unlock(slot->pool);
	list_push_back(&slot->pool->slots[SLOT_NONE], &slot->node);
	return (struct verdict){
	    .kind = VERDICT_HAND, .slot = slot, .site = site, .wake_us = UINT64_MAX};
}

void slot_leave(struct slot *slot)
{
	struct pool *pool = slot->pool;

	take_out(slot);
	/* it was lost on its way to another worker */
	if (slot->is_carried) {
		exchange_lock(pool);
		pool->part.whole->places[slot->carried_to].arriving--;
		atomic_fetch_sub(&pool->part.whole->connected, 1);
		conn_limits_uncount(exchange_view(pool), pool->part.whole, false);
		central_host_carried(exchange_view(pool), &slot->carried_from);
		exchange_unlock(pool);
		pool_schedule(pool);
	}
	slot->is_carried = false;
	slot->pool = NULL;
	idle_note_pool(pool);
}
