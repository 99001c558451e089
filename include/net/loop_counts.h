/*
 * What a loop counts of its own work, for SHOW and tests.
 */
#ifndef NET_LOOP_COUNTS_H
#define NET_LOOP_COUNTS_H

#include <stdint.h>

struct loop_counts {
	uint64_t turns, recv_calls, send_calls, ctl_calls;
	/* The longest turn, without its wait: since the start, in the current period of
	 * statistics, and in the one before. */
	uint64_t longest_us, period_longest_us, last_longest_us;
	/* The time spent in turns: in the current period and in the one before; and
	 * when each of the two began. */
	uint64_t period_busy_us, last_busy_us;
	uint64_t period_began_us, last_began_us;
	uint64_t began_us;   /* start of the current turn */
	uint64_t started_us; /* start of the first turn */
};

/* A turn begins after its wait and ends before the next one. */
void loop_counts_begin(struct loop_counts *counts, uint64_t now_us);
void loop_counts_end(struct loop_counts *counts, uint64_t now_us);
/* Ends a period of statistics and begins the next one. */
void loop_counts_end_period(struct loop_counts *counts);
/* The longest turn of the current period and the one before it, so that the value is
 * meaningful right after a new period has begun. */
uint64_t loop_counts_recent_us(const struct loop_counts *counts);
/* The percentage of these two periods that was spent in turns; the current turn does
 * not count. */
unsigned loop_counts_busy(const struct loop_counts *counts, uint64_t now_us);

#endif
