/*
 * The queue of a pool, and links.  An ask is in pool->clients or in pool->waiting;
 * while it waits, it is also in the list of those with the same need, so that the first
 * of each kind is found without a walk.
 */
#include "pool/queue.h"

#include <assert.h>

#include "pool/exchange.h"
#include "pool/pins.h"
#include "pool/pool_effective.h"
#include "pool/room.h"
#include "pool/seats.h"

static struct list *list_of_kind(struct pool *pool, enum ask_kind kind)
{
	switch (kind) {
	case ASK_WELCOME:
		return &pool->newcomers;
	case ASK_REPLICATION:
		return &pool->replicas;
	case ASK_QUERY:
	case ASK_AUTH:
		break;
	}
	return &pool->part.seekers;
}

/* Counts a client that begins (1) or ceases (-1) to wait, under the lock.  Those of a
 * killed pool are no longer counted. */
static void count(const struct pool *pool, enum ask_kind kind, int change)
{
	struct central_pool *whole = pool->part.whole;

	if (pool->is_killed)
		return;
	atomic_fetch_add(&whole->queued, change);
	if (kind == ASK_QUERY || kind == ASK_AUTH)
		atomic_fetch_add(&whole->waiting, change);
}

bool queue_add(struct ask *ask, enum ask_kind kind, int limit, uint64_t now_us)
{
	struct pool *pool = ask->pool;

	assert(ask->state == ASK_RESTING);
	exchange_lock(pool);
	if (limit > 0 && pool_queued_everywhere(pool) >= (size_t)limit) {
		exchange_unlock(pool);
		return false;
	}
	list_remove(&pool->clients, &ask->node);
	list_push_back(&pool->waiting, &ask->node);
	ask->kind = kind;
	ask->state = ASK_WAITING;
	ask->queued_us = now_us;
	list_push_back(list_of_kind(pool, kind), &ask->kind_node);
	count(pool, kind, 1);
	exchange_unlock(pool);
	exchange_note(pool);
	room_note(pool);
	return true;
}

void queue_remove(struct ask *ask)
{
	struct pool *pool = ask->pool;

	assert(ask->state == ASK_WAITING);
	exchange_lock(pool);
	list_remove(list_of_kind(pool, ask->kind), &ask->kind_node);
	count(pool, ask->kind, -1);
	exchange_unlock(pool);
	list_remove(&pool->waiting, &ask->node);
	list_push_back(&pool->clients, &ask->node);
	ask->state = ASK_RESTING;
	exchange_note(pool);
	room_note(pool);
	if (room_is_wanted(pool)) {
		/* the set of limits was chosen for the client that leaves */
		if (room_wants_several(pool))
			pool_kick(pool);
		queue_review_room(pool);
		room_reorder(pool);
	}
	/* when nobody waits for a seat, resting ones may be closed for other pools */
	if (list_is_empty(&pool->part.seekers))
		room_offer(pool);
}

void queue_review_room(struct pool *pool)
{
	if (room_is_wanted(pool) &&
	    pool->part.seekers.count <= pool->seats[SEAT_TESTED].count)
		pool_kick(pool);
}

void queue_serve(struct ask *ask, uint64_t now_us)
{
	uint64_t wait_us = now_us > ask->queued_us ? now_us - ask->queued_us : 0;

	ask->pool->stats.wait_time_us += wait_us;
	latency_add(&ask->pool->latency, LATENCY_WAIT, wait_us);
	queue_remove(ask);
}

struct seat *queue_idle_seat(const struct pool *pool)
{
	struct seat *seat;

	if (list_is_empty(&pool->seats[SEAT_IDLE]))
		return NULL;
	if (pool->balance.pool_hosts.count > 1 &&
	    pool->database->config->load_balance_hosts != LOAD_BALANCE_DISABLE)
		return hosts_idle_seat(pool);
	/* dirty seats only exist until pool_next has run */
	list_for (seat, &pool->seats[SEAT_IDLE], node) {
		if (!seat->is_dirty)
			return seat;
	}
	return NULL;
}

struct ask *queue_first_seeker(const struct pool *pool)
{
	struct node *first = list_first(&pool->part.seekers);

	return first ? container_of(first, struct ask, kind_node) : NULL;
}

void queue_link(struct ask *ask, struct seat *seat, uint64_t now_us)
{
	if (ask->state == ASK_WAITING)
		queue_serve(ask, now_us);
	assert(ask->state == ASK_RESTING);
	ask->state = ASK_LINKED;
	ask->seat = seat;
	seat->ask = ask;
	seat->was_checked = false;
	seat->was_lent = true;
	ask->pool->has_wasted = false;
	hosts_lend(seat);
	ask->pool->stats.server_assignment_count++;
}

void queue_unlink(struct seat *seat)
{
	struct ask *ask = seat->ask;

	if (seat->is_pinned)
		pins_drop(seat);
	if (!ask)
		return;
	ask->seat = NULL;
	ask->state = ASK_RESTING;
	seat->ask = NULL;
}

struct verdict queue_grant(struct ask *ask, struct seat *seat, uint64_t now_us)
{
	if (ask->state != ASK_WAITING)
		latency_add_unwaited(&ask->pool->latency);
	queue_link(ask, seat, now_us);
	seat_move(seat, SEAT_ACTIVE, now_us);
	return (struct verdict){.kind = VERDICT_GRANT, .ask = ask, .seat = seat};
}

struct verdict queue_refuse(struct ask *ask, const char *text, const char *sqlstate)
{
	if (ask->state == ASK_WAITING)
		queue_remove(ask);
	return (struct verdict){
	    .kind = VERDICT_REFUSE, .ask = ask, .text = text, .sqlstate = sqlstate};
}

struct verdict queue_refuse_for(struct ask *ask, enum error_id id)
{
	return queue_refuse(ask, error_text(id), error_sqlstate(id));
}
