/*
 * The part of struct site that belongs to the relay floor: registries of prepared
 * statements, the table of clients that left session state on servers, and openings.
 */
#ifndef RELAY_RELAY_FLOOR_H
#define RELAY_RELAY_FLOOR_H

#include "session/site.h"

/* Call it after session_init and before the first connection. */
void relay_floor_init(struct site *site);
/* Frees what relay_floor_init made.  Call it after session_done, when no connection and
 * no helper thread is left that could use it, and before vars_schema_free. */
void relay_floor_done(struct site *site);

#endif
