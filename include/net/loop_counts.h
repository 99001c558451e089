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
	/* When the current period and the one before began, and for how long the thread
	 * had been busy until then (base/cpu_time.h).  The time of turns is no
	 * measure for that: with io_uring the kernel sends and receives while a turn
	 * waits. */
	uint64_t period_began_us, last_began_us;
	uint64_t period_busy_from_us, last_busy_from_us;
	uint64_t began_us;   /* start of the current turn */
	uint64_t started_us; /* when the loop first ran */
};

/* Begins to count.  busy_us: for how long the thread has been busy, here and below. */
void loop_counts_start(struct loop_counts *counts, uint64_t now_us, uint64_t busy_us);
/* A turn begins after its wait and ends before the next one. */
void loop_counts_begin(struct loop_counts *counts, uint64_t now_us);
void loop_counts_end(struct loop_counts *counts, uint64_t now_us);
/* Ends a period of statistics and begins the next one. */
void loop_counts_end_period(
    struct loop_counts *counts, uint64_t now_us, uint64_t busy_us);
/* The longest turn of the current period and the one before it, so that the value is
 * meaningful right after a new period has begun. */
uint64_t loop_counts_recent_us(const struct loop_counts *counts);
/* The percentage of these two periods in which the thread was busy. */
unsigned loop_counts_busy(
    const struct loop_counts *counts, uint64_t now_us, uint64_t busy_us);

#endif
