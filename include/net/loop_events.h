/*
 * libevent within a loop: its signals, and the base of its HTTP server.  The loop
 * watches the descriptors that libevent's events wait for, and has a deadline for their
 * next timeout; libevent itself tells both.  So it is called only when it has something
 * to do, and never waits.
 */
#ifndef NET_LOOP_EVENTS_H
#define NET_LOOP_EVENTS_H

#include "net/loop.h"

struct event_base;

/* The base of this loop, which is made by the first call. */
struct event_base *loop_events_base(struct loop *loop);
/* To be called after calls outside of libevent's callbacks that may have changed what
 * libevent waits for. */
void loop_events_follow(struct loop *loop);
/* To be called before libevent closes a descriptor that another process may have;
 * loop_events_follow goes on. */
void loop_events_leave(struct loop *loop);

#endif
