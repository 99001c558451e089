/*
 * What a change of pool_mode means for the servers that a pool has.
 */
#include "pool/pool.h"
#include "pool/slots.h"

/* Returns false if no server is at rest. */
static bool replace_unreset(struct pool *pool)
{
	static const enum slot_state resting[] = {SLOT_IDLE, SLOT_USED, SLOT_TESTED};
	struct slot *slot;

	for (size_t i = 0; i < sizeof(resting) / sizeof(resting[0]); i++)
		list_for (slot, &pool->slots[resting[i]], node)
			slot_mark(slot, DIRTY_OLD);
	return pool->has_dirty;
}

void pool_review_mode(struct pool *pool)
{
	struct slot *slot;

	/* The console has no servers, and exists before the settings are known. */
	if (pool->database->is_admin)
		return;
	bool has_sessions = pool_mode(pool) == POOL_MODE_SESSION;
	if (has_sessions == pool->has_sessions)
		return;
	pool->has_sessions = has_sessions;
	if (!has_sessions) {
		/* the release looks at the new mode, in which it would not reset these
		 * servers */
		static const enum slot_state held[] = {
		    SLOT_ACTIVE, SLOT_BEING_CANCELED};
		for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++)
			list_for (slot, &pool->slots[held[i]], node)
				slot->needs_reset = true;
	} else if (replace_unreset(pool))
		pool_schedule(pool);
}
