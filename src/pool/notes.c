/*
 * Answers what other workers ask for.
 */
#include "pool/notes.h"

#include <string.h>

#include "pool/pool_effective.h"
#include "pool/room.h"
#include "pool/seats.h"

/* Chooses the same seat that a pool of this worker could have closed.  The other one
 * asks again, so that time alone need not be waited for. */
static struct seat *spared(
    struct catalog *c, struct central_limit *limit, uint64_t now_us)
{
	const char *name = limit->name.key + 1;
	uint64_t place_us = room_first_place(&c->view, limit), ignored = UINT64_MAX;

	if (place_us == UINT64_MAX)
		return NULL;
	if (limit->name.kind == ROOM_PROCESS)
		return room_evictable_of_process(c, place_us, now_us, &ignored);
	if (limit->name.kind == ROOM_USER) {
		const struct user *user = catalog_find_user(c, name);
		return user ? room_free_of_user(user) : NULL;
	}
	const struct database *db = catalog_find_database(c, name);
	return db ? room_free_of_database(db) : NULL;
}

/* Returns the pool of this worker, or NULL. */
static struct pool *pool_of(const struct catalog *c, const struct central_pool *whole)
{
	struct central_part *part = whole->places[c->view.worker].part;

	return part ? container_of(part, struct pool, part) : NULL;
}

struct verdict notes_hear(
    struct catalog *c, const struct central_note *note, uint64_t now_us)
{
	const struct verdict nothing = {.kind = VERDICT_NONE, .wake_us = UINT64_MAX};
	struct pool *pool = NULL;
	struct seat *seat = NULL;

	catalog_note_time(c, now_us);
	if (note->pool) {
		central_lock(&c->view);
		pool = pool_of(c, note->pool);
		if (pool && note->kind == NOTE_LOOK)
			pool->part.is_told = false;
		central_unlock(&c->view);
	}
	/* what was described to another process must stay as it is */
	if (c->is_offered)
		return nothing;
	if (pool && note->kind == NOTE_LOOK)
		pool_kick(pool);
	else if (pool)
		seat = pool_longest_resting(pool);
	else if (note->limit)
		seat = spared(c, note->limit, now_us);
	return seat ? seat_retire(seat, "evicted") : nothing;
}

struct pool *notes_pool(struct catalog *c, const struct central_pool *whole)
{
	const char *database = whole->name.key + 1;
	const char *user = database + strlen(database) + 1;
	/* only this worker changes it */
	struct pool *pool = pool_of(c, whole);
	bool is_new;

	if (pool)
		return pool;
	struct database *db = catalog_database(c, database, &is_new);
	return db && !db->is_admin ? catalog_pool_as(db, catalog_user(c, user)) : NULL;
}

void notes_lost(struct catalog *c, struct central_pool *whole)
{
	central_lock(&c->view);
	struct pool *pool = pool_of(c, whole);
	whole->places[c->view.worker].arriving--;
	atomic_fetch_sub(&whole->connected, 1);
	room_uncount(&c->view, whole, false);
	if (pool)
		pool_kick(pool);
	central_unlock(&c->view);
}
