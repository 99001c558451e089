/*
 * What is in force for a pool besides what pool.h tells everyone.  Private to the pool
 * floor.
 */
#ifndef POOL_EFFECTIVE_H
#define POOL_EFFECTIVE_H

#include "pool/pool.h"

const struct settings *pool_settings(const struct pool *pool);
/* PAUSE, not SUSPEND: resting servers are to be closed. */
bool pool_is_closing_for_pause(const struct pool *pool);
/* More servers than pool size and reserve. */
bool pool_is_oversized(const struct pool *pool);
/* Fewer servers than min_pool_size asks for. */
bool pool_is_undersized(const struct pool *pool);
/* Is a check query configured? */
bool pool_has_check(const struct pool *pool);
/* Least time between two closes for server_lifetime. */
uint64_t pool_lifetime_spacing(const struct pool *pool);

#endif
