/*
 * What the signals do that the process receives.
 */
#ifndef DAEMON_SIGNALS_H
#define DAEMON_SIGNALS_H

#include "session/site.h"

/* Handles signals in the site's loop, by its process verbs, until the loop is freed.
 * Returns -1 if the process lacks descriptors. */
int signals_start(struct site *site, struct err *err);

#endif
