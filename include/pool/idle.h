/*
 * The lists of pools and databases that nobody uses, with the time since when.  Private
 * to the pool floor.
 */
#ifndef POOL_IDLE_H
#define POOL_IDLE_H

#include "pool/pool.h"

/* Puts the object on its idle list or takes it off, depending on whether it is in use
 * now. */
void idle_note_pool(struct pool *pool);
void idle_note_database(struct database *db);

#endif
