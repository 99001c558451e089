/*
 * A timer of the kernel that makes a descriptor readable at a time, for a loop that
 * waits many times before that.  A wait with a short timeout would set and clear a
 * timer each time, which in a virtual machine costs more than the wait itself; an alarm
 * stays set.
 */
#ifndef NET_ALARM_H
#define NET_ALARM_H

#include <stdint.h>

struct alarm {
	int fd;         /* owned; to be watched with WATCH_EDGE; -1: none here */
	uint64_t at_us; /* when it rings, in terms of loop_now(); 0: it is not set */
};

/* -1 and errno: there is no descriptor left. */
int alarm_init(struct alarm *a);
void alarm_done(struct alarm *a);
/* Lets the alarm ring at at_us, which is later than now_us, the time now.  It may ring
 * earlier: one that was set to an earlier time stays as it is. */
void alarm_set(struct alarm *a, uint64_t at_us, uint64_t now_us);

#endif
