/*
 * Which pools and databases nobody uses, and since when.  Private to the pool floor.
 */
#ifndef POOL_IDLE_H
#define POOL_IDLE_H

#include "pool/pool.h"

/* Put it on the list of idle ones or take it off, as things are now. */
void idle_note_pool(struct pool *pool);
void idle_note_database(struct database *db);

#endif
