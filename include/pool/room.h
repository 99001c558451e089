/*
 * Who waits for room under the limits that pools share: max_user_connections,
 * max_db_connections, max_server_connections.  Pools take turns in the order in which
 * their first clients began to wait.  Who holds a limit, and what counts against it, is
 * known here alone.
 */
#ifndef POOL_ROOM_H
#define POOL_ROOM_H

#include "pool/pool.h"

/* ---- what counts ---- */
/* A seat begins and ends to count for this pool: for its user, its database and the
 * process, for which one that carries a cancel request does not count.  An end makes
 * room, and whoever waits for it is told. */
void room_take(struct pool *pool, bool is_cancel);
void room_give(struct pool *pool, bool is_cancel);
/* The next seat of this pool counts for other sites from now on: whoever has seen under
 * the lock of the tallies that there is room takes it so. */
void room_claim(struct pool *pool);
/* A seat goes to another site, comes from one, or was lost on the way: for other sites
 * it counts all the time. */
void room_carry_out(struct pool *pool);
void room_carry_in(struct pool *pool, unsigned from);
void room_carry_nowhere(struct pool *pool);
/* The limit has no room for another seat of this pool. */
bool room_is_full(const struct pool *pool, enum room_kind kind);
/* More seats than the process may have: the limit was lowered. */
bool room_is_exceeded(const struct pool *pool);

/* ---- who waits ---- */
/* The pool could open a server if this limit had room: it enters the queue for it, and
 * leaves any other (ROOM_COUNT: all).  Who becomes the first by that is told. */
void room_want(struct pool *pool, enum room_kind kind);
/* It is in one of them. */
bool room_is_wanted(const struct pool *pool);
/* Another client is the pool's first waiter. */
void room_reorder(struct pool *pool);
/* There may be room, or a resting seat to evict: tell who is first in the queues of
 * this pool's user and database, and of the process. */
void room_offer(const struct pool *pool);
/* The same in one of these queues. */
void room_tell_first(const struct heap *starving, enum room_kind kind);
/* Under which limit another pool comes first; ROOM_COUNT: this one does under all. */
enum room_kind room_before(const struct pool *pool);
/* Another pool has so long a lead that a seat which comes free here is worth closing
 * for it. */
bool room_is_owed(const struct pool *pool, uint64_t now_us);
/* The setting under which the pool waits for room that others have, e.g.
 * "max_db_connections"; NULL: under none.  *limit is its value. */
const char *room_lacked(const struct pool *pool, int *limit);
/* The pool is about to be freed. */
void room_forget(struct pool *pool);

/* ---- who gives up what ---- */
/* A seat at rest that may be closed to make room for this pool, or NULL: then *wake_us
 * becomes earlier if time alone can change that. */
struct seat *room_evictable(
    const struct pool *pool, enum room_kind kind, uint64_t now_us, uint64_t *wake_us);
/* A seat at rest that could be closed at once for a pool of another site, or NULL. */
struct seat *room_free_of_database(const struct database *db);
struct seat *room_free_of_user(const struct user *user);
struct seat *room_free_of_process(const struct catalog *c);
/* A seat at rest, of any pool, that must go because there are too many, or NULL. */
struct seat *room_surplus(const struct pool *pool);
extern const char room_surplus_reason[];
/* Something has changed that says whether the pool has a seat to give up: its seats at
 * rest, their number, its clients, its waiters, its settings. */
void room_note(struct pool *pool);
/* The same for all pools: settings have changed. */
void room_note_all(struct catalog *c);

#endif
