/*
 * Limits that pools share: max_user_connections, max_db_connections,
 * max_server_connections.  Pools that need room for a connection wait in queues, in the
 * order in which their first clients began to wait.  Only this file knows what counts
 * against a limit and which pool comes first.
 */
#ifndef POOL_CONN_LIMITS_H
#define POOL_CONN_LIMITS_H

#include "pool/pool.h"

/* ---- what counts ---- */
/* A slot begins (take) or ends (give) to count for the user, the database and the
 * process of this pool; one that carries a cancel request does not count for the
 * process.  An end makes room, which is told to those who wait. */
void conn_limits_take(struct pool *pool, bool is_cancel);
void conn_limits_give(struct pool *pool, bool is_cancel);
/* The next slot of this pool counts from now on.  To be called under the lock, after
 * seeing that there is room. */
void conn_limits_claim(struct pool *pool);
/* That slot was not opened. */
void conn_limits_unclaim(struct pool *pool);
/* A slot of this pool, which need not exist at this worker, no longer counts. */
void conn_limits_uncount(
    struct central_view *view, struct central_pool *whole, bool is_cancel);
/* The limit that is in force for this pool; 0: there is none. */
int conn_limits_limit(const struct pool *pool, enum conn_limit kind);
/* Whether the limit has no room for another slot of this pool. */
bool conn_limits_is_full(const struct pool *pool, enum conn_limit kind);
/* Are so many slots pinned (pins.h), of all pools that share the limit, that none is
 * left to go round? */
bool conn_limits_is_pinned(const struct pool *pool, enum conn_limit kind);
/* Whether there are more slots than the limit allows, because it was lowered, or
 * because servers have come from another process. */
bool conn_limits_is_exceeded(const struct pool *pool, enum conn_limit kind);

/* ---- who waits ---- */
/* A set of limits is the sum of these. */
#define CONN_LIMIT_BIT(kind) (1u << (kind))
/* The pool could open a server if the limits of this set had room: puts it into the
 * queues for them and takes it out of the others.  It may want one that has room, so
 * that the room is left to it while it waits for the others.  A pool that becomes the
 * first in a queue is told. */
void conn_limits_want(struct pool *pool, unsigned wanted);
/* The set of limits that the settings give for this pool. */
unsigned conn_limits_limited(const struct pool *pool);
/* Whether the pool is in one of the queues. */
bool conn_limits_is_wanted(const struct pool *pool);
bool conn_limits_wants_several(const struct pool *pool);
/* A waiting client has left, which may change the pool's place in the queues. */
void conn_limits_reorder(struct pool *pool);
/* There may be room, or a resting slot to evict: tells the first pools in the queues of
 * this pool's user, its database, and the process. */
void conn_limits_offer(const struct pool *pool);
/* Tells the pool that comes first under one of these limits. */
void conn_limits_tell_first(const struct pool *pool, enum conn_limit kind);
/* The place of the first pool that waits for room under this limit; UINT64_MAX: none
 * waits, or there is room. */
uint64_t conn_limits_first_place(
    struct central_view *view, const struct central_limit *limit);
/* Returns the limit under which another pool comes first, with the least place if there
 * are several; CONN_LIMIT_COUNT: there is none. */
enum conn_limit conn_limits_before(const struct pool *pool, uint64_t *place_us);
/* Whether another pool has waited so much longer that a slot that becomes free here
 * should be closed for it. */
bool conn_limits_is_owed(const struct pool *pool, uint64_t now_us);
/* The setting whose limit the pool waits for, e.g. "max_db_connections"; NULL: none.
 * *limit is its value. */
const char *conn_limits_lacked(const struct pool *pool, int *limit);
/* The pool is about to be freed: takes it out of all queues. */
void conn_limits_forget(struct pool *pool);

/* ---- who gives up what ---- */
/* The place of the pool's first waiting client in the queue of all workers: a time, and
 * the least comes first.  UINT64_MAX: none waits. */
uint64_t conn_limits_place(const struct pool *pool, enum conn_limit kind);
/* Returns a resting slot that may be closed to make room for this pool, or NULL;
 * *wake_us is then lowered if that can change by time alone. */
struct slot *conn_limits_evictable(
    const struct pool *pool, enum conn_limit kind, uint64_t now_us, uint64_t *wake_us);
/* The same for a pool of another worker, which has this place. */
struct slot *conn_limits_evictable_of_process(
    const struct catalog *c, uint64_t place_us, uint64_t now_us, uint64_t *wake_us);
struct slot *conn_limits_free_of_database(const struct database *db);
struct slot *conn_limits_free_of_user(const struct user *user);
/* Returns a resting slot, of any pool, that must be closed because there are too many,
 * or NULL. */
struct slot *conn_limits_surplus(const struct pool *pool);
extern const char conn_limits_surplus_reason[];
/* Must be called when something changes that decides whether the pool can give up a
 * slot: its resting slots, their number, its clients, its queue, its settings. */
void conn_limits_note(struct pool *pool);
/* The same for all pools, because settings have changed. */
void conn_limits_note_all(struct catalog *c);

#endif
