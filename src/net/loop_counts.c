/*
 * Turns of a loop and how long they take.  The clock is the loop's.
 */
#include "net/loop_counts.h"

void loop_counts_begin(struct loop_counts *counts, uint64_t now_us)
{
	counts->began_us = now_us;
}

void loop_counts_end(struct loop_counts *counts, uint64_t now_us)
{
	uint64_t us = now_us - counts->began_us;

	counts->turns++;
	if (us > counts->period_longest_us)
		counts->period_longest_us = us;
	if (us > counts->longest_us)
		counts->longest_us = us;
}

void loop_counts_end_period(struct loop_counts *counts)
{
	counts->last_longest_us = counts->period_longest_us;
	counts->period_longest_us = 0;
}

uint64_t loop_counts_recent_us(const struct loop_counts *counts)
{
	return counts->period_longest_us > counts->last_longest_us
		   ? counts->period_longest_us
		   : counts->last_longest_us;
}
