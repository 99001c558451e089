/*
 * The deadlines of one loop, the next one first.  Moving one later costs O(1): it
 * stands under heap_us, which is never later than what its owner wants (at_us), and is
 * put where it belongs when it comes up.
 */
#ifndef NET_DEADLINES_H
#define NET_DEADLINES_H

#include <stdint.h>

struct deadline {
	uint64_t at_us;   /* loop_now() time; UINT64_MAX = not set */
	uint64_t heap_us; /* the heap's: where it stands (<= at_us) */
	uint32_t index;   /* the heap's: 0 = not in it */
	void (*expired)(
	    struct deadline *d); /* the deadline is cleared before the call */
};
static inline void deadline_init(struct deadline *d, void (*expired)(struct deadline *))
{
	d->at_us = UINT64_MAX;
	d->heap_us = 0;
	d->index = 0;
	d->expired = expired;
}

struct deadlines {
	struct deadline **heap; /* from index 1 */
	uint32_t count, cap;
	uint64_t calling_to_us; /* those up to here are called; 0: none */
};

/* A zeroed struct has none. */
void deadlines_done(struct deadlines *all);
void deadlines_set(struct deadlines *all, struct deadline *d, uint64_t at_us);
void deadlines_clear(struct deadlines *all, struct deadline *d);
/* Calls those that are due.  One that is set meanwhile is not among them. */
void deadlines_call(struct deadlines *all, uint64_t now_us);
/* When to look again, which may be before any is due; UINT64_MAX: never. */
uint64_t deadlines_next(const struct deadlines *all);

#endif
