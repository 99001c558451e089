/*
 * The floors of one site, from the loop up, made and unmade.  A process has one site,
 * or one for each worker and one for the control thread: see session/crew.h.
 */
#ifndef DAEMON_FLOORS_H
#define DAEMON_FLOORS_H

#include "base/err.h"
#include "session/crew.h"
#include "session/site.h"

/* On the site's thread; mem, log and verbs are set.  crew: where it joins, in this
 * place; NULL: the site is alone.  -1 and err: floors_close is due all the same. */
int floors_open(struct site *site, const struct settings *settings, struct crew *crew,
    unsigned index, struct err *err);
/* Turns of its loop until loop_stop.  What one of them logs leaves at its end. */
void floors_run(struct site *site);
/* Closes all connections, in a few turns of the loop.  -1: some do not close. */
int floors_empty(struct site *site);
/* When they are closed, and nobody posts to the site any more. */
void floors_close(struct site *site);

#endif
