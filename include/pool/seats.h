/*
 * The lists of seats by state, the lists of resting seats, and the counts.  It records
 * and decides nothing.  Private to the pool floor.
 */
#ifndef POOL_SEATS_H
#define POOL_SEATS_H

#include "pool/pool.h"

/* Queues the pool for pool_next. */
static inline void pool_kick(struct pool *pool)
{
	struct catalog *c = pool->database->catalog;

	if (!pool->is_kicked)
		c->events->kick(c->events_ctx, pool);
}

/* Notes the time, which never goes back. */
static inline void catalog_note_time(struct catalog *c, uint64_t now_us)
{
	if (now_us > c->seen_us)
		c->seen_us = now_us;
}

/* Adds a new seat, in the state SEAT_LOGIN or SEAT_ACTIVE_CANCEL. */
void seat_enter(
    struct pool *pool, struct seat *seat, enum seat_state state, uint64_t now_us);
/* Changes the state of a seat; asserts that states.def allows it.  When the seat comes
 * to rest, those who could use or evict it are told.  Idle seats go to the front of
 * their list, with server_round_robin=1 to the end. */
void seat_move(struct seat *seat, enum seat_state state, uint64_t now_us);
/* Takes a seat out of all lists and counts, but seat->pool stays.  Returns the verdict
 * RETIRE. */
struct verdict seat_retire(struct seat *seat, const char *reason);
/* Takes a seat that rests or could rest out of all lists for another site; it counts
 * until pool_carried.  Returns the verdict HAND. */
struct verdict seat_carry(struct seat *seat, unsigned site);
/* Takes a seat out of the pool. */
void seat_leave(struct seat *seat);

#endif
