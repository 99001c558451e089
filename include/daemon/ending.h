/*
 * The end of a site: every connection is dropped.
 */
#ifndef DAEMON_ENDING_H
#define DAEMON_ENDING_H

#include "session/site.h"

/* Drops all without a word to them, and runs the loop until they are gone.  Peers must
 * have been made (peers_init).  -1: some do not go, and the site must not be taken
 * apart. */
int ending_drop_all(struct site *site);

#endif
