/*
 * The time of a thread.  How long it ran comes from its clock, which always works and
 * is exact; how long it waited for a processor comes from a file that stays open, so
 * that no reading lacks what others had.
 */
#include "base/cpu_time.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void cpu_time_open(struct cpu_time *t)
{
	t->fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	t->waited_us = 0;
}

void cpu_time_close(struct cpu_time *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

uint64_t cpu_time_busy_us(struct cpu_time *t)
{
	struct timespec ran;

	/* the second number of the file, in nanoseconds */
	char text[80], *second;
	ssize_t len = t->fd < 0 ? -1 : pread(t->fd, text, sizeof(text) - 1, 0);
	if (len > 0) {
		text[len] = '\0';
		(void)strtoull(text, &second, 10);
		uint64_t waited_us = strtoull(second, NULL, 10) / 1000;
		if (waited_us > t->waited_us)
			t->waited_us = waited_us;
	}
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
	return t->waited_us + (uint64_t)ran.tv_sec * 1000000 +
	       (uint64_t)ran.tv_nsec / 1000;
}

/* ---- short sleeps ---- */

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
