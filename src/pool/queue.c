/*
 * The queue of a pool, and links.  A request is in pool->clients or in pool->waiting;
 * while it waits, it is also in the list of those with the same need, so that the first
 * of each kind is found without a walk.
 */
#include "pool/queue.h"

#include <assert.h>

#include "pool/conn_limits.h"
#include "pool/exchange.h"
#include "pool/pins.h"
#include "pool/slots.h"

static struct list *list_of_kind(struct pool *pool, enum request_kind kind)
{
	switch (kind) {
	case REQUEST_PARAMS:
		return &pool->param_waiters;
	case REQUEST_REPLICATION:
		return &pool->replicas;
	case REQUEST_QUERY:
	case REQUEST_AUTH:
		break;
	}
	return &pool->part.waiters;
}

/* Counts a client that begins (1) or ceases (-1) to wait, under the lock.  Those of a
 * killed pool are no longer counted. */
static void count(const struct pool *pool, enum request_kind kind, int change)
{
	struct central_pool *whole = pool->part.whole;

	if (pool->is_killed)
		return;
	atomic_fetch_add(&whole->queued, change);
	if (kind == REQUEST_QUERY || kind == REQUEST_AUTH)
		atomic_fetch_add(&whole->waiting, change);
}

bool queue_add(
    struct pool_request *request, enum request_kind kind, int limit, uint64_t now_us)
{
	struct pool *pool = request->pool;

	assert(request->state == REQUEST_RESTING);
	exchange_lock(pool);
	if (limit > 0 && pool_queued_everywhere(pool) >= (size_t)limit) {
		exchange_unlock(pool);
		return false;
	}
	list_remove(&pool->clients, &request->node);
	list_push_back(&pool->waiting, &request->node);
	request->kind = kind;
	request->state = REQUEST_WAITING;
	request->queued_us = now_us;
	list_push_back(list_of_kind(pool, kind), &request->kind_node);
	count(pool, kind, 1);
	exchange_unlock(pool);
	exchange_note(pool);
	conn_limits_note(pool);
	return true;
}

void queue_remove(struct pool_request *request)
{
	struct pool *pool = request->pool;

	assert(request->state == REQUEST_WAITING);
	exchange_lock(pool);
	list_remove(list_of_kind(pool, request->kind), &request->kind_node);
	count(pool, request->kind, -1);
	exchange_unlock(pool);
	list_remove(&pool->waiting, &request->node);
	list_push_back(&pool->clients, &request->node);
	request->state = REQUEST_RESTING;
	exchange_note(pool);
	conn_limits_note(pool);
	/* a replication client waits for less than those before it (see place_with),
	 * and has servers closed that rest */
	const struct pool_request *first = queue_first(pool);
	if (first && first->kind == REQUEST_REPLICATION)
		pool_schedule(pool);
	if (conn_limits_is_wanted(pool)) {
		/* the set of limits was chosen for the client that leaves */
		if (conn_limits_wants_several(pool))
			pool_schedule(pool);
		queue_review_room(pool);
		conn_limits_reorder(pool);
	}
	/* when nobody waits for a slot, resting ones may be closed for other pools */
	if (list_is_empty(&pool->part.waiters))
		conn_limits_offer(pool);
}

void queue_review_room(struct pool *pool)
{
	if (conn_limits_is_wanted(pool) &&
	    pool->part.waiters.count <= pool->slots[SLOT_TESTED].count)
		pool_schedule(pool);
}

void queue_serve(struct pool_request *request, uint64_t now_us)
{
	uint64_t wait_us =
	    now_us > request->queued_us ? now_us - request->queued_us : 0;

	request->pool->stats.wait_time_us += wait_us;
	latency_add(&request->pool->latency, LATENCY_WAIT, wait_us);
	queue_remove(request);
}

struct slot *queue_idle_slot(const struct pool *pool)
{
	struct slot *slot;

	if (list_is_empty(&pool->slots[SLOT_IDLE]))
		return NULL;
	if (pool->balance.pool_hosts.count > 1 &&
	    pool->database->config->load_balance_hosts != LOAD_BALANCE_DISABLE)
		return hosts_idle_slot(pool);
	/* dirty slots only exist until pool_next has run */
	list_for (slot, &pool->slots[SLOT_IDLE], node) {
		if (!slot->dirty)
			return slot;
	}
	return NULL;
}

struct pool_request *queue_first_waiter(const struct pool *pool)
{
	struct node *first = list_first(&pool->part.waiters);

	return first ? container_of(first, struct pool_request, kind_node) : NULL;
}

void queue_link(struct pool_request *request, struct slot *slot, uint64_t now_us)
{
	if (request->state == REQUEST_WAITING)
		queue_serve(request, now_us);
	assert(request->state == REQUEST_RESTING);
	request->state = REQUEST_LINKED;
	request->slot = slot;
	slot->request = request;
	slot->was_checked = false;
	slot->was_lent = true;
	request->pool->has_wasted = false;
	hosts_assign(slot);
	request->pool->stats.server_assignment_count++;
}

void queue_unlink(struct slot *slot)
{
	struct pool_request *request = slot->request;

	if (slot->is_pinned)
		pins_drop(slot);
	if (!request)
		return;
	request->slot = NULL;
	request->state = REQUEST_RESTING;
	slot->request = NULL;
}

struct verdict queue_grant(
    struct pool_request *request, struct slot *slot, uint64_t now_us)
{
	if (request->state != REQUEST_WAITING)
		latency_add_unwaited(&request->pool->latency);
	queue_link(request, slot, now_us);
	slot_move(slot, SLOT_ACTIVE, now_us);
	return (struct verdict){
	    .kind = VERDICT_GRANT, .request = request, .slot = slot};
}

struct verdict queue_refuse(
    struct pool_request *request, const char *text, const char *sqlstate)
{
	if (request->state == REQUEST_WAITING)
		queue_remove(request);
	return (struct verdict){.kind = VERDICT_REFUSE,
	    .request = request,
	    .text = text,
	    .sqlstate = sqlstate};
}

struct verdict queue_refuse_for(struct pool_request *request, enum error_id id)
{
	return queue_refuse(request, error_text(id), error_sqlstate(id));
}
