/*
 * Descriptors that are kept open for nothing, so that a few connections can be accepted
 * when the process has no other descriptor left.
 */
#ifndef SESSION_SPARES_H
#define SESSION_SPARES_H

#include <stdbool.h>

#include "session/site.h"

/* Opens the spare descriptors. */
void spares_init(struct site *site);
/* Closes them. */
void spares_done(struct site *site);
/* Closes one spare descriptor, so that one more socket can be opened.  false: there is
 * none left. */
bool spares_give_up(struct site *site);
/* A copy of this descriptor, for a connection on its way to another site: at the limit
 * a spare one is given up for it, and comes back with the next call that finds room.
 * -1: none. */
int spares_duplicate(struct site *site, int fd);
/* Opens the spares that are missing, as many as the process has descriptors for. */
void spares_refill(struct site *site);

#endif
