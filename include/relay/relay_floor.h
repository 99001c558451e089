/*
 * What the relay floor needs before the first connection.
 */
#ifndef RELAY_RELAY_FLOOR_H
#define RELAY_RELAY_FLOOR_H

#include "session/site.h"

/* Call it after session_init. */
void relay_floor_init(struct site *site);
/* Call it after session_done, which ends the helper threads and frees the connections.
 */
void relay_floor_done(struct site *site);

#endif
