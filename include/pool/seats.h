/*
 * The lists below pool.h: seats by state, the resting lists, counts.
 * Private to the pool floor.  Records, decides nothing.
 */
#ifndef POOL_SEATS_H
#define POOL_SEATS_H

#include "pool/pool.h"

/* Queue the pool for pool_next. */
static inline void pool_kick(struct pool *pool)
{
	struct catalog *c = pool->database->catalog;

	if (!pool->is_kicked)
		c->events->kick(c->events_ctx, pool);
}

/* Time goes forward. */
static inline void catalog_note_time(struct catalog *c, uint64_t now_us)
{
	if (now_us > c->seen_us)
		c->seen_us = now_us;
}

/* A new seat, in SEAT_LOGIN or SEAT_ACTIVE_CANCEL. */
void seat_enter(
    struct pool *pool, struct seat *seat, enum seat_state state, uint64_t now_us);
/* To another state; asserts that states.def allows it.  Coming to rest is told to who
 * could use or evict it.  Idle seats go to the front, with server_round_robin=1 to the
 * back. */
void seat_move(struct seat *seat, enum seat_state state, uint64_t now_us);
/* Out of all lists and counts, but seat->pool stays. */
struct verdict seat_retire(struct seat *seat, const char *reason);
/* To another site: out of all lists, but it still counts. until pool_carried. */
struct verdict seat_carry(struct seat *seat, unsigned site);
/* Out of the pool. */
void seat_leave(struct seat *seat);

#endif
