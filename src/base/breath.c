/*
 * Sleeps of long tasks.
 */
#include "base/breath.h"

#include <stddef.h>
#include <time.h>

/* The kernel adds some 50 us to a sleep.  So a task takes a third longer if nobody
 * else wants the processor. */
enum { STEPS_MOST = 150, SLEEP_NS = 1000 };

void breath_take(struct breath *b, unsigned steps)
{
	const struct timespec moment = {.tv_nsec = SLEEP_NS};

	if (!b || (b->steps += steps) < STEPS_MOST)
		return;
	b->steps = 0;
	nanosleep(&moment, NULL);
}
