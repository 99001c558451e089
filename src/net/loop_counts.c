#include "net/loop_counts.h"

void loop_counts_start(struct loop_counts *counts, uint64_t now_us, uint64_t busy_us)
{
	counts->started_us = now_us;
	counts->period_began_us = counts->last_began_us = now_us;
	counts->period_busy_from_us = counts->last_busy_from_us = busy_us;
}

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

void loop_counts_end_period(
    struct loop_counts *counts, uint64_t now_us, uint64_t busy_us)
{
	counts->last_longest_us = counts->period_longest_us;
	counts->period_longest_us = 0;
	counts->last_began_us = counts->period_began_us;
	counts->period_began_us = now_us;
	counts->last_busy_from_us = counts->period_busy_from_us;
	counts->period_busy_from_us = busy_us;
}

uint64_t loop_counts_recent_us(const struct loop_counts *counts)
{
	return counts->period_longest_us > counts->last_longest_us
		   ? counts->period_longest_us
		   : counts->last_longest_us;
}

unsigned loop_counts_busy(
    const struct loop_counts *counts, uint64_t now_us, uint64_t busy_us)
{
	uint64_t past_us = now_us - counts->last_began_us;
	uint64_t used_us = busy_us - counts->last_busy_from_us;

	/* now_us is the start of the turn, and a busy one goes on since then */
	if (used_us >= past_us)
		return used_us ? 100 : 0;
	return (unsigned)(100 * used_us / past_us);
}
