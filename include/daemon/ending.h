/*
 * The end of a site: every connection is dropped.
 */
#ifndef DAEMON_ENDING_H
#define DAEMON_ENDING_H

#include "session/site.h"

/* Closes all connections without sending them anything, and runs the loop until they
 * are closed.  Call it after peers_init.  -1: some have not closed, so the site must
 * not be freed. */
int ending_drop_all(struct site *site);

#endif
