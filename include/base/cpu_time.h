/*
 * For how long a thread has had something to do: it ran, or waited for a processor.
 * Work counts wherever it is done, also in the kernel during a call that waits
 * afterwards.  Only the thread itself may use the functions.
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

#endif
