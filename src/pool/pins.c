/*
 * Counts pinned servers, without the lock: one too many is taken back at once.
 */
#include "pool/pins.h"

#include <limits.h>

#include "pool/conn_limits.h"

int pins_most(const struct pool *pool)
{
	int wanted = scope_max_pinned_servers(scope_of_pool(pool));
	int size = pool_size(pool);

	for (int kind = 0; kind < CONN_LIMIT_COUNT; kind++) {
		int limit = conn_limits_limit(pool, (enum conn_limit)kind);
		if (limit && (!size || limit < size))
			size = limit;
	}
	if (!size)
		return wanted ? wanted : INT_MAX;
	return wanted && wanted < size ? wanted : wanted ? size - 1 : size / 2;
}

int pins_count(const struct pool *pool)
{
	return central_read(&pool->part.whole->pinned);
}

static void add(struct slot *slot, int change)
{
	struct central_pool *whole = slot->pool->part.whole;

	atomic_fetch_add(&whole->pinned, change);
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		atomic_fetch_add(&whole->limits[kind]->pinned, change);
	slot->is_pinned = change > 0;
}

bool pins_claim(struct slot *slot)
{
	const struct pool *pool = slot->pool;

	if (slot->is_pinned)
		return true;
	add(slot, 1);
	if (pins_count(pool) <= pins_most(pool) &&
	    !conn_limits_is_pinned(pool, CONN_LIMIT_USER) &&
	    !conn_limits_is_pinned(pool, CONN_LIMIT_DATABASE) &&
	    !conn_limits_is_pinned(pool, CONN_LIMIT_PROCESS))
		return true;
	add(slot, -1);
	return false;
}

void pins_restore(struct slot *slot)
{
	if (!slot->is_pinned)
		add(slot, 1);
}

void pins_drop(struct slot *slot)
{
	if (slot->is_pinned)
		add(slot, -1);
}
