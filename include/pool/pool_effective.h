/*
 * Values in force for a pool, besides those in pool.h.  Private to the pool floor.
 */
#ifndef POOL_POOL_EFFECTIVE_H
#define POOL_POOL_EFFECTIVE_H

#include "pool/pool.h"

/* PAUSE, but not SUSPEND: resting servers must be closed. */
bool pool_is_closing_for_pause(const struct pool *pool);
/* There are no clients, no slots and no cancel requests. */
bool pool_is_empty(const struct pool *pool);
/* pool_connected_count and pool_server_count, with the servers of other workers and
 * those on their way. */
size_t pool_connected_everywhere(const struct pool *pool);
size_t pool_servers_everywhere(const struct pool *pool);
/* There are more servers than pool size and reserve allow. */
bool pool_is_oversized(const struct pool *pool);
/* There are fewer servers than min_pool_size asks for. */
bool pool_is_undersized(const struct pool *pool);
/* Whether a check query is configured. */
bool pool_has_check(const struct pool *pool);
/* The least time between the starts of two attempts to connect, if the first one
 * failed.  It is above 0 even with server_login_retry=0, because attempts that fail at
 * once would otherwise follow each other without an end.  It is at most a second where
 * the monitor of hosts looks after the database. */
uint64_t pool_login_retry(const struct pool *pool);
/* The least time between two closes for server_lifetime. */
uint64_t pool_lifetime_spacing(const struct pool *pool);

/* Returns the resting slot that would be missed least, or NULL. */
struct slot *pool_longest_resting(const struct pool *pool);

#endif
