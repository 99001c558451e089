/*
 * Pauses of a thread that computes for long and is in no hurry.  The kernel takes the
 * processor away from a busy thread only with its clock, every 1 to 10 ms, however low
 * the thread's priority is; meanwhile everybody who wakes up on that processor waits.
 * So such a thread sleeps shortly from time to time.
 */
#ifndef BASE_THROTTLE_H
#define BASE_THROTTLE_H

struct throttle {
	unsigned steps; /* since it slept; 0 at first */
};

/* Steps of the task are done, each about a microsecond of work.  Sleeps if enough of
 * them were done.  NULL: nobody else is waiting, and nothing happens. */
void throttle_take(struct throttle *b, unsigned steps);

#endif
