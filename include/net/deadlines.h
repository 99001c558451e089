/*
 * The deadlines of one loop, as a heap with the next one first.  Moving a deadline to a
 * later time costs O(1): its place in the heap depends on heap_us, which stays as it is
 * and may be earlier than at_us; the place is corrected when heap_us comes.
 */
#ifndef NET_DEADLINES_H
#define NET_DEADLINES_H

#include <stdint.h>

struct deadline {
	uint64_t at_us; /* in terms of loop_now(); UINT64_MAX: not set */
	/* private: the time that its place in the heap depends on (<= at_us) */
	uint64_t heap_us;
	uint32_t index; /* private: index in the heap; 0: not in the heap */
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
	struct deadline **heap; /* the first element is unused */
	uint32_t count, cap;
	/* while deadlines are called: those up to this time; otherwise 0 */
	uint64_t calling_to_us;
};

/* A zeroed struct has no deadlines. */
void deadlines_done(struct deadlines *all);
void deadlines_set(struct deadlines *all, struct deadline *d, uint64_t at_us);
void deadlines_clear(struct deadlines *all, struct deadline *d);
/* Calls all deadlines that have come.  One that is set meanwhile waits for the next
 * call. */
void deadlines_call(struct deadlines *all, uint64_t now_us);
/* When deadlines_call must be called next, which may be earlier than the first
 * deadline; UINT64_MAX: never. */
uint64_t deadlines_next(const struct deadlines *all);

/* ---- a timer of the kernel ---- */

/* It makes a descriptor readable at a time, for a loop that waits many times before
 * that.  A wait with a short timeout would set and clear a timer each time, which in
 * a virtual machine costs more than the wait itself; an alarm stays set. */

struct alarm {
	int fd;         /* owned; to be watched with WATCH_EDGE; -1: none here */
	uint64_t at_us; /* when it rings, in terms of loop_now(); 0: it is not set */
};

/* -1 and errno: there is no descriptor left. */
int alarm_init(struct alarm *a);
void alarm_done(struct alarm *a);
/* Lets the alarm ring at at_us, which is later than now_us, the time now.  It may ring
 * earlier: one that was set to an earlier time stays as it is. */
void alarm_set(struct alarm *a, uint64_t at_us, uint64_t now_us);

#endif
