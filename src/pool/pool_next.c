/*
 * Decides what happens next in a pool: which client is told something, which server is
 * closed, checked or opened.  Each call returns one verdict and changes what the next
 * call sees, so that repeated calls come to an end.  Whether a server is opened is
 * decided in pool_open.c.
 */
#include <assert.h>

#include "base/time_us.h"
#include "pool/conn_limits.h"
#include "pool/exchange.h"
#include "pool/pool_effective.h"
#include "pool/pool_open.h"
#include "pool/queue.h"
#include "pool/slots.h"

static const struct verdict nothing = {.kind = VERDICT_NONE, .wake_us = UINT64_MAX};

static struct slot *first_slot(const struct pool *pool, enum slot_state state)
{
	struct node *first = list_first(&pool->slots[state]);

	return first ? container_of(first, struct slot, node) : NULL;
}

/* ---- servers that must go ---- */

static struct slot *find_dirty(
    const struct pool *pool, enum slot_state state, bool only_replication)
{
	struct slot *slot;

	list_for (slot, &pool->slots[state], node) {
		if (slot->dirty && (!only_replication || slot->is_replication))
			return slot;
	}
	return NULL;
}

/* Returns after the first dirty slot.  It is usually found at once, because a marking
 * concerns most slots. */
static struct verdict retire_dirty(struct pool *pool)
{
	struct slot *slot = find_dirty(pool, SLOT_LOGIN, false);

	if (slot)
		return slot_retire(slot, "connect string changed");
	slot = find_dirty(pool, SLOT_USED, false);
	if (!slot)
		slot = find_dirty(pool, SLOT_IDLE, false);
	if (!slot)
		slot = find_dirty(pool, SLOT_ACTIVE, true);
	if (slot)
		return slot_retire(slot, slot->dirty == DIRTY_MISPLACED
					     ? "its host has another role now"
					     : error_text(ERROR_DATABASE_CHANGED));
	pool->has_dirty = false;
	return nothing;
}

static struct verdict retire_for_pause(struct pool *pool)
{
	struct slot *slot = first_slot(pool, SLOT_USED);

	if (!slot)
		slot = first_slot(pool, SLOT_IDLE);
	if (!slot) {
		slot = first_slot(pool, SLOT_LOGIN);
		/* a connection that already has its client is kept */
		if (slot && slot->request)
			slot = NULL;
	}
	return slot ? slot_retire(slot, "pause mode") : nothing;
}

static struct verdict shrink(struct pool *pool)
{
	struct slot *slot = pool_longest_resting(pool);

	if (slot)
		return slot_retire(slot, "too many servers in the pool");
	exchange_tell_resting(pool, NOTE_LOOK);
	return nothing;
}

/* ---- the queue ---- */

static struct verdict check_used(struct pool *pool, uint64_t now_us)
{
	struct slot *slot = first_slot(pool, SLOT_USED);

	assert(slot);
	if (slot->dirty)
		return slot_retire(slot, "obsolete connection");
	uint64_t delay = scope_server_check_delay(scope_of_pool(pool));
	/* the setting has changed meanwhile, so no check is needed */
	if (!pool_has_check(pool) || (delay && now_us - slot->rested_us < delay))
		return queue_grant(queue_first_waiter(pool), slot, now_us);
	slot_move(slot, SLOT_TESTED, now_us);
	slot->was_checked = true;
	return (struct verdict){
	    .kind = VERDICT_CHECK, .slot = slot, .wake_us = UINT64_MAX};
}

/* A server that rests here goes to another worker, whose client comes first. */
static struct verdict serve_others(struct pool *pool, uint64_t now_us)
{
	struct verdict v = nothing;
	struct slot *slot = queue_idle_slot(pool);

	if (!slot)
		slot = first_slot(pool, SLOT_USED);
	if (!slot || slot->dirty)
		return v;
	int worker =
	    exchange_receiver(pool, queue_first_waiter(pool), now_us, &v.wake_us);
	return worker < 0 ? v : slot_carry(slot, (unsigned)worker);
}

static struct verdict serve_waiters(struct pool *pool, uint64_t now_us)
{
	struct verdict v =
	    exchange_has_waiting(pool) ? serve_others(pool, now_us) : nothing;

	if (v.kind != VERDICT_NONE || list_is_empty(&pool->part.waiters))
		return v;
	struct slot *slot = queue_idle_slot(pool);
	if (slot)
		return queue_grant(queue_first_waiter(pool), slot, now_us);
	if (!list_is_empty(&pool->slots[SLOT_USED]) &&
	    !pool_open_awaits_tests(pool, now_us))
		return check_used(pool, now_us);
	return v;
}

/* Clients that only wait for the login parameters are admitted even while the pool is
 * paused. */
static struct verdict admit(struct pool *pool, uint64_t now_us)
{
	struct node *first = list_first(&pool->param_waiters);

	if (!first || !pool_has_login_params(pool))
		return nothing;
	struct pool_request *request =
	    container_of(first, struct pool_request, kind_node);
	queue_serve(request, now_us);
	return (struct verdict){.kind = VERDICT_ADMIT, .request = request};
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
	struct pool_request *request = queue_first(pool);
	const char *sqlstate, *text = refusal_of_all(pool, &sqlstate);

	if (request && text)
		return queue_refuse(request, text, sqlstate);
	pool->failure.refuses_waiting = pool->sends_away = false;
	return nothing;
}

static struct verdict next_while_running(struct pool *pool, uint64_t now_us)
{
	struct verdict v = serve_waiters(pool, now_us);
	uint64_t wake_us = v.wake_us;

	if (v.kind == VERDICT_NONE && pool_is_oversized(pool))
		v = shrink(pool);
	struct slot *surplus =
	    v.kind == VERDICT_NONE ? conn_limits_surplus(pool) : NULL;
	if (surplus)
		v = slot_retire(surplus, conn_limits_surplus_reason);
	if (v.kind == VERDICT_NONE)
		v = pool_open_next(pool, now_us);
	struct slot *old = pool->replacement.old;
	if (v.kind == VERDICT_NONE)
		v.wake_us = time_earlier(v.wake_us, wake_us);
	if (v.kind != VERDICT_NONE || !old)
		return v;
	if (pool->replacement.stage == REPLACE_WANTED)
		v.wake_us = time_earlier(v.wake_us, now_us + REPLACE_LOOK_US);
	if (pool->replacement.stage == REPLACE_DUE &&
	    (old->state == SLOT_IDLE || old->state == SLOT_USED))
		return slot_retire_for_lifetime(old, now_us);
	return v;
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
		conn_limits_want(pool, 0);
		return v;
	}
	exchange_note(pool);
	if (!pool_is_paused(pool))
		return next_while_running(pool, now_us);
	conn_limits_want(pool, 0);
	pool->wants_probe = false;
	if (pool_is_closing_for_pause(pool))
		return retire_for_pause(pool);
	struct slot *slot = first_slot(pool, SLOT_USED);
	return slot ? slot_retire(slot, "close unsafe file descriptors on suspend")
		    : nothing;
}
