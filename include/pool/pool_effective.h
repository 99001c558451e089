/*
 * What is in force for a pool besides what pool.h tells everyone.  Private to the pool
 * floor.
 */
#ifndef POOL_POOL_EFFECTIVE_H
#define POOL_POOL_EFFECTIVE_H

#include "pool/pool.h"

/* PAUSE, not SUSPEND: resting servers are to be closed. */
bool pool_is_closing_for_pause(const struct pool *pool);
/* No clients, no seats, no cancel requests. */
bool pool_is_empty(const struct pool *pool);
/* pool_connected_count and pool_server_count, with those of other sites. */
size_t pool_connected_everywhere(const struct pool *pool);
size_t pool_servers_everywhere(const struct pool *pool);
/* More servers than pool size and reserve. */
bool pool_is_oversized(const struct pool *pool);
/* Fewer servers than min_pool_size asks for. */
bool pool_is_undersized(const struct pool *pool);
/* Is a check query configured? */
bool pool_has_check(const struct pool *pool);
/* Least time between the starts of two attempts to connect, after one that failed.  It
 * is more than 0 with server_login_retry=0 as well: an attempt that fails at once would
 * otherwise be followed by the next one for ever, without a turn of the loop. */
uint64_t pool_login_retry(const struct pool *pool);
/* Least time between two closes for server_lifetime. */
uint64_t pool_lifetime_spacing(const struct pool *pool);

/* Which of the pool's seats at rest would be missed least, or NULL. */
struct seat *pool_longest_resting(const struct pool *pool);

#endif
