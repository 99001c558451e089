/*
 * The queue of a pool over all workers: whose client comes first, at which worker
 * servers rest, and what workers tell each other of that.  With one worker there is
 * only its own queue.  Private to the pool floor.
 */
#ifndef POOL_EXCHANGE_H
#define POOL_EXCHANGE_H

#include "pool/pool.h"

static inline struct central_view *exchange_view(const struct pool *pool)
{
	return &pool->database->catalog->view;
}
static inline void exchange_lock(const struct pool *pool)
{
	central_lock(exchange_view(pool));
}
static inline void exchange_unlock(const struct pool *pool)
{
	central_unlock(exchange_view(pool));
}
/* Does a client of any worker wait for a server of this pool?  Without the lock; a
 * server that is at rest before this is asked is seen by whoever begins to wait. */
static inline bool exchange_has_waiting(const struct pool *pool)
{
	return central_read(&pool->part.whole->waiting) > 0;
}

/* How long a client waits for a server of its own worker before it gets one that rests
 * at another, whose clients may be about to use it again. */
enum { EXCHANGE_OWN_US = 2000 };

/* The pool begins and ends to be one of its workers' parts. */
void exchange_join(struct pool *pool);
void exchange_part(struct pool *pool);
/* Others see whether clients wait for the parameters, and whether the pool is paused,
 * so that its clients get no server. */
void exchange_note(struct pool *pool);

/* A slot is free, or is about to be used: returns the worker whose client gets it, -1:
 * it stays here.  `first` is the first client that waits here, or NULL.  *wake_us is
 * lowered if time alone can change the answer and the other worker does not watch it.
 * Takes the lock. */
int exchange_receiver(const struct pool *pool, const struct pool_request *first,
    uint64_t now_us, uint64_t *wake_us);
/* Under the lock: since when the first client of any worker waits that could use a
 * server of the pool; UINT64_MAX: none does. */
uint64_t exchange_first_since(const struct pool *pool);
/* Under the lock: is a replication client the first one that waits there? */
bool exchange_has_replica_first(const struct central_part *part);
static inline bool exchange_has_workers(const struct pool *pool)
{
	return exchange_view(pool)->central->worker_count > 1;
}
/* Tells a worker where a server rests that the first waiting client needs it, once this
 * is due.  True: it is waited for, or one is on its way.  *wake_us is lowered if the
 * answer can change by time alone.  first may be NULL. */
bool exchange_await_help(struct pool *pool, const struct pool_request *first,
    uint64_t now_us, uint64_t *wake_us);
/* How many servers rest or are on their way, at workers that answer. */
int exchange_available(const struct pool *pool);

/* Under the lock: the worker of this part is to look at its pool. */
void exchange_tell(struct central_view *view, const struct central_part *part);
/* There may be room for another server of the pool: tells all workers whose clients
 * wait in it. */
void exchange_tell_waiting(struct central_view *view, struct central_pool *whole);
/* Tells a worker with a server of this pool at rest, or with clients of it. */
void exchange_tell_resting(const struct pool *pool, enum note_kind kind);
void exchange_tell_clients(const struct pool *pool);
/* Tells the worker with the most servers at rest under this limit to make room. */
void exchange_ask_for_room(const struct pool *pool, enum conn_limit kind);

#endif
