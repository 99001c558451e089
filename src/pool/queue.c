/*
 * The queue of a pool, and links.  An ask is in pool->clients or in pool->waiting;
 * while it waits, it is also in the list of those with the same need, so that the first
 * of each kind is found without a walk.
 */
#include "pool/queue.h"

#include <assert.h>

#include "pool/elsewhere.h"
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
	return &pool->seekers;
}

static bool has_room(const struct pool *pool)
{
	int size = pool_size(pool);

	return size <= 0 || pool_servers_everywhere(pool) < (size_t)size;
}

static void note_newcomers(const struct pool *pool)
{
	atomic_bool *own =
	    &tally_own(&pool->database->catalog->view, pool->tally)->wants_welcome;
	bool wants_welcome = !list_is_empty(&pool->newcomers);

	if (atomic_load_explicit(own, memory_order_relaxed) != wants_welcome)
		atomic_store(own, wants_welcome);
}

/* Publishes since when clients wait here, and for what, to other sites; see room.c. The
 * clients of a paused pool do not count, because the pool would close the server. */
void queue_note_waiting(struct pool *pool)
{
	const struct tally_view *view = &pool->database->catalog->view;
	const struct ask *first =
	    pool_is_paused(pool) ? NULL : queue_first_seeker(pool);

	if (!pool->tally || pool->is_killed)
		return;
	uint64_t since_us =
	    elsewhere_shown_since(pool, first, pool->database->catalog->seen_us);
	bool is_served = tally_note_waiting(view, pool->tally, since_us);
	if (is_served && has_room(pool))
		elsewhere_tell_next(pool, pool->tally);
	/* the time to show the next one has to be set */
	if (is_served && first && !since_us)
		pool_kick(pool);
	note_newcomers(pool);
}

/* How many wait here, for the other sites. */
static void count_queued(const struct pool *pool, int change)
{
	if (pool->tally)
		tally_add_own(
		    &tally_own(&pool->database->catalog->view, pool->tally)->queued,
		    change);
}

bool queue_may_take(const struct pool *pool, int limit)
{
	struct tallies *tallies = pool->database->catalog->view.tallies;

	if (limit > 0) {
		tallies_lock(tallies);
		if (pool_queued_everywhere(pool) >= (size_t)limit) {
			tallies_unlock(tallies);
			return false;
		}
	}
	count_queued(pool, 1);
	if (limit > 0)
		tallies_unlock(tallies);
	return true;
}

void queue_add(struct ask *ask, enum ask_kind kind, uint64_t now_us)
{
	struct pool *pool = ask->pool;

	assert(ask->state == ASK_RESTING);
	list_remove(&pool->clients, &ask->node);
	list_push_back(&pool->waiting, &ask->node);
	list_push_back(list_of_kind(pool, kind), &ask->kind_node);
	ask->kind = kind;
	ask->state = ASK_WAITING;
	ask->queued_us = now_us;
	queue_note_waiting(pool);
	room_note(pool);
}

void queue_remove(struct ask *ask)
{
	struct pool *pool = ask->pool;

	assert(ask->state == ASK_WAITING);
	count_queued(pool, -1);
	list_remove(&pool->waiting, &ask->node);
	list_remove(list_of_kind(pool, ask->kind), &ask->kind_node);
	list_push_back(&pool->clients, &ask->node);
	ask->state = ASK_RESTING;
	queue_note_waiting(pool);
	room_note(pool);
	bool is_wanted = room_is_wanted(pool);
	if (is_wanted && !list_is_empty(&pool->waiting)) {
		room_reorder(pool);
	} else if (is_wanted) {
		room_want(pool, 0);
		/* the pool may still be below min_pool_size */
		pool_kick(pool);
	}
	/* when nobody waits for a seat, resting ones may be closed for other pools */
	if (list_is_empty(&pool->seekers))
		room_offer(pool);
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
	if (pool->shares.count > 1 &&
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
	struct node *first = list_first(&pool->seekers);

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
