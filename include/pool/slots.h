/*
 * The lists of slots by state, the lists of resting slots, and the counts.  It records
 * and decides nothing.  Private to the pool floor.
 */
#ifndef POOL_SLOTS_H
#define POOL_SLOTS_H

#include "pool/pool.h"

/* How often a server that waits for another one to take its place looks whether that is
 * there, and its pool whether it can be opened. */
enum { REPLACE_LOOK_US = 100000 };

/* Queues the pool for pool_next. */
static inline void pool_schedule(struct pool *pool)
{
	struct catalog *c = pool->database->catalog;

	if (!pool->is_scheduled)
		c->events->schedule(c->events_ctx, pool);
}

/* Notes the time, which never goes back. */
static inline void catalog_note_time(struct catalog *c, uint64_t now_us)
{
	if (now_us > c->seen_us)
		c->seen_us = now_us;
}

/* Adds a new slot, in the state SLOT_LOGIN or SLOT_ACTIVE_CANCEL. */
void slot_enter(
    struct pool *pool, struct slot *slot, enum slot_state state, uint64_t now_us);
/* Changes the state of a slot; asserts that states.def allows it.  When the slot comes
 * to rest, those who could use or evict it are told.  Idle slots go to the front of
 * their list, with server_round_robin=1 to the end. */
void slot_move(struct slot *slot, enum slot_state state, uint64_t now_us);
/* Marks a slot for its next release; a weaker reason than the one that it has changes
 * nothing. */
static inline void slot_mark(struct slot *slot, enum dirty why)
{
	if (slot->dirty < why)
		slot->dirty = why;
	slot->pool->has_dirty = true;
}

/* Takes a slot out of all lists and counts, but slot->pool stays.  Returns the verdict
 * RETIRE. */
struct verdict slot_retire(struct slot *slot, const char *reason);
/* The same for one whose lifetime is over. */
struct verdict slot_retire_for_lifetime(struct slot *slot, uint64_t now_us);
/* Takes a slot that rests or could rest out of all lists for another site; it counts
 * until pool_carried.  Returns the verdict HAND. */
struct verdict slot_carry(struct slot *slot, unsigned site);
/* Takes a slot out of the pool. */
void slot_leave(struct slot *slot);

#endif
