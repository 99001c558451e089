/*
 * The relay floor's part of the site: registries of prepared statements, and the record
 * of clients that left session state on servers.
 */
#ifndef RELAY_RELAY_FLOOR_H
#define RELAY_RELAY_FLOOR_H

#include "session/site.h"

/* Makes it.  Call it after session_init, and before the first connection. */
void relay_floor_init(struct site *site);
/* Frees it.  Call it after session_done: then no connection and no helper thread is
 * left that could use it. */
void relay_floor_done(struct site *site);

#endif
