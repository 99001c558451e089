/*
 * The broker floor's part of the site: what the broker keeps for pools, and attempts to
 * open connections.
 */
#ifndef BROKER_BROKER_FLOOR_H
#define BROKER_BROKER_FLOOR_H

#include "session/site.h"

/* Makes it.  Call it after session_init, and before the first connection. */
void broker_floor_init(struct site *site);
/* Settings or limits have changed: every resting server and every queue is looked at
 * again. */
void broker_floor_review(struct site *site);
/* Frees it.  Call it after session_done: then no connection and no helper thread is
 * left that could use it. */
void broker_floor_done(struct site *site);

#endif
