/*
 * Sleeps of long tasks.
 */
#include "base/throttle.h"

#include <stddef.h>
#include <time.h>

/* The kernel adds some 50 us to a sleep.  So a task takes a third longer if nobody
 * else wants the processor. */
enum { STEPS_MOST = 150, SLEEP_NS = 1000 };

void throttle_take(struct throttle *b, unsigned steps)
{
	const struct timespec moment = {.tv_nsec = SLEEP_NS};

	if (!b || (b->steps += steps) < STEPS_MOST)
		return;
	b->steps = 0;
	nanosleep(&moment, NULL);
}
