/*
 * The part of struct site that belongs to the broker floor: what the broker keeps for
 * pools, and the attempts to open connections.
 */
#ifndef BROKER_BROKER_FLOOR_H
#define BROKER_BROKER_FLOOR_H

#include "session/site.h"

/* Call it after session_init and before the first connection. */
void broker_floor_init(struct site *site);
/* Settings or limits have changed: checks every idle server and every queue again. */
void broker_floor_review(struct site *site);
/* Frees what needs the catalog.  Call it when no connection is left, before
 * catalog_free; broker_floor_done follows. */
void broker_floor_stop(struct site *site);
/* Frees the rest of what broker_floor_init made.  Call it after session_done, when no
 * helper thread is left that could use it. */
void broker_floor_done(struct site *site);

#endif
