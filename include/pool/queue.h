/*
 * The queue of a pool, and the link between a request and a slot.  Private to the pool
 * floor.
 */
#ifndef POOL_QUEUE_H
#define POOL_QUEUE_H

#include "pool/pool.h"

/* Changes a request from resting to waiting; queue_remove changes it back.  False: as
 * many as `limit` (0: no limit) wait already, at all workers. */
bool queue_add(
    struct pool_request *request, enum request_kind kind, int limit, uint64_t now_us);
void queue_remove(struct pool_request *request);
/* Like queue_remove, because the request is served: its wait is counted. */
void queue_serve(struct pool_request *request, uint64_t now_us);
/* A client has left, or a server is being tested that serves one: a pool that waits for
 * room may need none any more, or only that of min_pool_size. */
void queue_review_room(struct pool *pool);

/* Returns the request that has waited longest, or NULL. */
static inline struct pool_request *queue_first(const struct pool *pool)
{
	struct node *first = list_first(&pool->waiting);

	return first ? container_of(first, struct pool_request, node) : NULL;
}
/* Returns an idle slot that may be lent, or NULL. */
struct slot *queue_idle_slot(const struct pool *pool);
/* Returns the first request that waits for any slot, or NULL. */
struct pool_request *queue_first_waiter(const struct pool *pool);
/* Links the two; request may have been waiting.  The caller changes the state of the
 * slot. */
void queue_link(struct pool_request *request, struct slot *slot, uint64_t now_us);
void queue_unlink(struct slot *slot);
/* Links the two and returns the verdict GRANT. */
struct verdict queue_grant(
    struct pool_request *request, struct slot *slot, uint64_t now_us);
/* Takes the request out of the queue, if it is there, and returns the verdict REFUSE
 * with this text. */
struct verdict queue_refuse(
    struct pool_request *request, const char *text, const char *sqlstate);
/* queue_refuse with text and SQLSTATE of a row in errors.def. */
struct verdict queue_refuse_for(struct pool_request *request, enum error_id id);

#endif
