/*
 * What a thread uses of its processor. For how long it has had something to do: it ran,
 * or waited for a processor; work counts wherever it is done, also in the kernel during
 * a call that waits afterwards, and only the thread itself may use the functions. And
 * pauses of one that computes for long.
 */
#ifndef BASE_CPU_TIME_H
#define BASE_CPU_TIME_H

#include <stdint.h>

struct cpu_time {
	int fd; /* its counts in /proc; -1: none, so waits for a processor do not count
		 */
	uint64_t waited_us; /* for a processor, as far as that is known */
};

/* Begins; needs one descriptor.  Without one, or without the file of the kernel
 * (proc(5): schedstat), only the time counts in which the thread runs. */
void cpu_time_open(struct cpu_time *t);
/* Closes the descriptor. */
void cpu_time_close(struct cpu_time *t);
/* The time since the thread began, in microseconds; it never becomes less.  Only the
 * difference of two calls is meaningful. */
uint64_t cpu_time_busy_us(struct cpu_time *t);

/* ---- short sleeps ---- */

/* The kernel takes the processor away from a busy thread only with its clock, every
 * 1 to 10 ms, however low the thread's priority is; meanwhile everybody who wakes up
 * on that processor waits.  So a thread that computes for long and is in no hurry
 * sleeps shortly from time to time. */

struct throttle {
	unsigned steps; /* since it slept; 0 at first */
};

/* Steps of the task are done, each about a microsecond of work.  Sleeps if enough of
 * them were done.  NULL: nobody else is waiting, and nothing happens. */
void throttle_take(struct throttle *b, unsigned steps);

#endif
