/*
 * What the signals of the system mean.
 */
#ifndef DAEMON_SIGNALS_H
#define DAEMON_SIGNALS_H

#include "session/site.h"

/* Handle them in the site's loop, by its process verbs, until the loop is freed. */
void signals_start(struct site *site);

#endif
