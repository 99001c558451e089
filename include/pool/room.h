/*
 * Who waits for room under max_db_connections and max_user_connections.  Pools take
 * turns in the order in which their first clients began to wait.  Private to the pool
 * floor.
 */
#ifndef POOL_ROOM_H
#define POOL_ROOM_H

#include "pool/pool.h"

/* The pool could open a server if its database or its user had room: enter or leave
 * their queues.  Who becomes the first by that is told. */
void room_want(struct pool *pool, bool of_database, bool of_user);
/* Another client is the pool's first waiter. */
void room_reorder(struct pool *pool);
/* There may be room, or a resting seat to evict: tell who is first in the queues of
 * this pool's database and user. */
void room_offer(const struct pool *pool);
/* Another pool's client has waited longer for room in the database or for the user than
 * anybody in this pool. */
bool room_is_before_in_database(const struct pool *pool);
bool room_is_before_of_user(const struct pool *pool);
/* The same by so much that a seat which comes free here is worth closing for it. */
bool room_is_owed(const struct pool *pool, uint64_t now_us);

#endif
