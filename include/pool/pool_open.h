/*
 * Whether a server is opened for a pool.  Private to the pool floor.
 */
#ifndef POOL_POOL_OPEN_H
#define POOL_POOL_OPEN_H

#include "pool/pool.h"

/* Decides whether a server is opened now: DIAL, RETIRE of one that makes room, or NONE.
 * To be called when no server at rest serves the waiting clients. */
struct verdict pool_open_next(struct pool *pool, uint64_t now_us);
/* Whether the clients that wait for any server will get those under test. */
bool pool_open_awaits_tests(const struct pool *pool, uint64_t now_us);

#endif
