/*
 * The queue of a pool, and the link between an ask and a seat.  Private to the pool
 * floor.
 */
#ifndef POOL_QUEUE_H
#define POOL_QUEUE_H

#include "pool/pool.h"

/* Changes an ask from resting to waiting; queue_remove changes it back.  False: as many
 * as `limit` (0: no limit) wait already, at all workers. */
bool queue_add(struct ask *ask, enum ask_kind kind, int limit, uint64_t now_us);
void queue_remove(struct ask *ask);
/* Like queue_remove, because the ask is served: its wait is counted. */
void queue_serve(struct ask *ask, uint64_t now_us);
/* A client has left, or a server is being tested that serves one: a pool that waits for
 * room may need none any more, or only that of min_pool_size. */
void queue_review_room(struct pool *pool);

/* Returns the ask that has waited longest, or NULL. */
static inline struct ask *queue_first(const struct pool *pool)
{
	struct node *first = list_first(&pool->waiting);

	return first ? container_of(first, struct ask, node) : NULL;
}
/* Returns an idle seat that may be lent, or NULL. */
struct seat *queue_idle_seat(const struct pool *pool);
/* Returns the first ask that waits for any seat, or NULL. */
struct ask *queue_first_seeker(const struct pool *pool);
/* Links the two; ask may have been waiting.  The caller changes the state of the
 * seat. */
void queue_link(struct ask *ask, struct seat *seat, uint64_t now_us);
void queue_unlink(struct seat *seat);
/* Links the two and returns the verdict GRANT. */
struct verdict queue_grant(struct ask *ask, struct seat *seat, uint64_t now_us);
/* Takes the ask out of the queue, if it is there, and returns the verdict REFUSE with
 * this text. */
struct verdict queue_refuse(struct ask *ask, const char *text, const char *sqlstate);
/* queue_refuse with text and SQLSTATE of a row in errors.def. */
struct verdict queue_refuse_for(struct ask *ask, enum error_id id);

#endif
