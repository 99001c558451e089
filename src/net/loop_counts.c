/*
 * Counts the turns of a loop and their duration.
 */
#include "net/loop_counts.h"

void loop_counts_begin(struct loop_counts *counts, uint64_t now_us)
{
	counts->began_us = now_us;
	if (!counts->period_began_us) {
		counts->started_us = now_us;
		counts->period_began_us = counts->last_began_us = now_us;
	}
}

void loop_counts_end(struct loop_counts *counts, uint64_t now_us)
{
	uint64_t us = now_us - counts->began_us;

	counts->turns++;
	counts->period_busy_us += us;
	if (us > counts->period_longest_us)
		counts->period_longest_us = us;
	if (us > counts->longest_us)
		counts->longest_us = us;
}

void loop_counts_end_period(struct loop_counts *counts)
{
	counts->last_longest_us = counts->period_longest_us;
	counts->period_longest_us = 0;
	counts->last_busy_us = counts->period_busy_us;
	counts->period_busy_us = 0;
	counts->last_began_us = counts->period_began_us;
	counts->period_began_us = counts->began_us;
}

uint64_t loop_counts_recent_us(const struct loop_counts *counts)
{
	return counts->period_longest_us > counts->last_longest_us
		   ? counts->period_longest_us
		   : counts->last_longest_us;
}

unsigned loop_counts_busy(const struct loop_counts *counts, uint64_t now_us)
{
	uint64_t busy_us = counts->last_busy_us + counts->period_busy_us;
	uint64_t us =
	    now_us > counts->last_began_us ? now_us - counts->last_began_us : 0;

	/* the turn in which a period ends belongs completely to the next period */
	if (busy_us >= us)
		return busy_us ? 100 : 0;
	return (unsigned)(100 * busy_us / us);
}
