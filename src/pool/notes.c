#include "pool/notes.h"

#include <string.h>

#include "pool/conn_limits.h"
#include "pool/pool_effective.h"
#include "pool/slots.h"

/* Chooses the same slot that a pool of this worker could have closed.  The other one
 * asks again, so that time alone need not be waited for. */
static struct slot *spared(
    struct catalog *c, struct central_limit *limit, uint64_t now_us)
{
	const char *name = limit->name.key + 1;
	uint64_t place_us = conn_limits_first_place(&c->view, limit),
		 ignored = UINT64_MAX;

	if (place_us == UINT64_MAX)
		return NULL;
	if (limit->name.kind == CONN_LIMIT_PROCESS)
		return conn_limits_evictable_of_process(c, place_us, now_us, &ignored);
	if (limit->name.kind == CONN_LIMIT_USER) {
		const struct user *user = catalog_find_user(c, name);
		return user ? conn_limits_free_of_user(user) : NULL;
	}
	const struct database *db = catalog_find_database(c, name);
	return db ? conn_limits_free_of_database(db) : NULL;
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
	struct slot *slot = NULL;

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
		pool_schedule(pool);
	else if (pool)
		slot = pool_longest_resting(pool);
	else if (note->limit)
		slot = spared(c, note->limit, now_us);
	return slot ? slot_retire(slot, "evicted") : nothing;
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

void notes_lost(struct catalog *c, struct central_pool *whole, struct slot *was)
{
	central_lock(&c->view);
	struct pool *pool = pool_of(c, whole);
	whole->places[c->view.worker].arriving--;
	atomic_fetch_sub(&whole->connected, 1);
	conn_limits_uncount(&c->view, whole, false);
	central_host_carried(&c->view, &was->carried_from);
	if (pool)
		pool_schedule(pool);
	central_unlock(&c->view);
}
