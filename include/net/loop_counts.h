/*
 * What a loop counts of itself, for SHOW and tests.
 */
#ifndef NET_LOOP_COUNTS_H
#define NET_LOOP_COUNTS_H

#include <stdint.h>

struct loop_counts {
	uint64_t turns, recv_calls, send_calls, ctl_calls;
	/* Of a turn, without its wait: since the start, in the period that runs, and in
	 * the one before it. */
	uint64_t longest_us, period_longest_us, last_longest_us;
	/* Spent in turns: in the period that runs, and in the one before it; when each
	 * began. */
	uint64_t period_busy_us, last_busy_us;
	uint64_t period_began_us, last_began_us;
	uint64_t began_us;   /* the turn that runs */
	uint64_t started_us; /* the first one */
};

/* A turn begins behind its wait, and ends before the next one. */
void loop_counts_begin(struct loop_counts *counts, uint64_t now_us);
void loop_counts_end(struct loop_counts *counts, uint64_t now_us);
/* A period of statistics ends, and the next one begins. */
void loop_counts_end_period(struct loop_counts *counts);
/* The longest turn of the running period and the one before it, so that there is
 * something to see right behind the end of one. */
uint64_t loop_counts_recent_us(const struct loop_counts *counts);
/* Percent of these two periods that were spent in turns; the turn that runs does not
 * count. */
unsigned loop_counts_busy(const struct loop_counts *counts, uint64_t now_us);

#endif
