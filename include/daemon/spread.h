/*
 * Moves clients from workers with much to do to those with little, also clients that
 * have been connected for long.  About once a second the workers are compared
 * (spread_plan).  Nothing moves during a SUSPEND or an online restart.
 */
#ifndef DAEMON_SPREAD_H
#define DAEMON_SPREAD_H

struct daemon;
struct site;

/* With several workers; else these do nothing. */
void spread_start(struct daemon *d);
void spread_stop(struct daemon *d);
/* All connections are about to be stopped: lets clients that were going to move go on
 * where they are.  site is the control site. */
void spread_interrupt(struct site *site);

#endif
