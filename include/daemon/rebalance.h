/*
 * Moves clients from workers with much to do to those with little, also clients that
 * have been connected for long.  About once a second the workers are compared
 * (rebalance_plan).  Nothing moves during a SUSPEND or an online restart.
 */
#ifndef DAEMON_REBALANCE_H
#define DAEMON_REBALANCE_H

struct daemon;
struct site;

/* With several workers; else these do nothing. */
void rebalance_start(struct daemon *d);
void rebalance_stop(struct daemon *d);
/* All connections are about to be stopped: lets clients that were going to move go on
 * where they are.  site is the control site. */
void rebalance_interrupt(struct site *site);

#endif
