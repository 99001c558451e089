#include "pool/exchange.h"

#include "base/time_us.h"
#include "pool/pool_effective.h"
#include "pool/slots.h"

/* How much longer than the first client of a server's own worker another one must have
 * waited to get that server.  Servers would otherwise change workers with every
 * transaction. */
enum { PREFERENCE_US = 5000 };

/* How long a worker has to answer before a new connection is opened instead. */
enum { ANSWER_US = 20000 };

/* ---- parts ---- */

void exchange_join(struct pool *pool)
{
	struct central_view *view = exchange_view(pool);
	struct central_part *part = &pool->part;
	struct central_limit *const limits[CONN_LIMIT_COUNT] = {
	    [CONN_LIMIT_USER] = pool->user->limit,
	    [CONN_LIMIT_DATABASE] = pool->database->limit,
	    [CONN_LIMIT_PROCESS] = pool->database->catalog->limit,
	};

	list_init(&part->waiters);
	part->worker = view->worker;
	part->is_alone = view->central->worker_count == 1;
	part->whole =
	    central_pool_hold(view, pool->database->name, pool->user->name, limits);
	if (pool->is_killed)
		return;
	central_lock(view);
	part->whole->places[view->worker].part = part;
	central_unlock(view);
}

/* Another pool may get the same names soon. */
void exchange_part(struct pool *pool)
{
	struct central_view *view = exchange_view(pool);
	struct central_pool *whole = pool->part.whole;

	central_lock(view);
	if (whole->places[view->worker].part == &pool->part) {
		whole->places[view->worker].part = NULL;
		atomic_fetch_sub(&whole->waiting, (int)pool->part.waiters.count);
		atomic_fetch_sub(&whole->queued, (int)pool->waiting.count);
		atomic_fetch_sub(
		    &whole->clients, (int)(pool->clients.count + pool->waiting.count));
		exchange_tell_waiting(view, whole);
	}
	central_unlock(view);
}

void exchange_note(struct pool *pool)
{
	bool wants_params = !list_is_empty(&pool->param_waiters);
	bool is_closed = pool_is_paused(pool);

	if (pool->part.wants_params == wants_params &&
	    pool->part.is_closed == is_closed)
		return;
	exchange_lock(pool);
	pool->part.wants_params = wants_params;
	pool->part.is_closed = is_closed;
	exchange_unlock(pool);
}

/* ---- who comes first ---- */

/* How many servers are about to arrive there. */
static int arriving_at(const struct central_place *place, uint64_t now_us)
{
	return now_us < place->arriving_us + CENTRAL_PATIENCE_US ? place->arriving : 0;
}

/* Returns the first client that waits there and for whom no server is on its way.
 * *wake_us is lowered to the time when those on their way are given up. */
static const struct pool_request *first_of(
    const struct central_place *place, uint64_t now_us, uint64_t *wake_us)
{
	const struct list *waiters = &place->part->waiters;
	const struct node *node = list_first(waiters);
	int arriving = node ? arriving_at(place, now_us) : 0;

	if (arriving)
		*wake_us =
		    time_earlier(*wake_us, place->arriving_us + CENTRAL_PATIENCE_US);
	for (; node && arriving > 0; arriving--)
		node = list_next(waiters, node);
	return node ? container_of(node, const struct pool_request, kind_node) : NULL;
}

/* A client there gets a server of another worker if it has waited for one of its own
 * for a moment, or there is none. */
static bool is_due(const struct central_part *part, const struct pool_request *request,
    uint64_t now_us)
{
	return !central_read(&part->connected) ||
	       now_us >= request->queued_us + EXCHANGE_OWN_US;
}

/* Returns the first client of other workers that is due, or NULL.  The worker of one
 * that is not due yet looks then; if it does not answer, it is told to look. */
static const struct pool_request *first_of_others(
    const struct pool *pool, uint64_t now_us, unsigned *worker, uint64_t *wake_us)
{
	struct central_view *view = exchange_view(pool);
	struct central_pool *whole = pool->part.whole;
	const struct pool_request *found = NULL;

	for (unsigned i = 0; i < view->central->worker_count; i++) {
		const struct central_part *part = whole->places[i].part;
		const struct pool_request *request =
		    part && part != &pool->part && !part->is_closed
			? first_of(&whole->places[i], now_us, wake_us)
			: NULL;
		if (!request || (found && found->queued_us <= request->queued_us) ||
		    (request->queued_us > part->looked_us &&
			!is_due(part, request, now_us)))
			continue;
		if (central_is_unresponsive(view, i)) {
			central_tell(view, i, NOTE_LOOK, whole, NULL);
			continue;
		}
		found = request;
		*worker = i;
	}
	return found;
}

int exchange_receiver(const struct pool *pool, const struct pool_request *first,
    uint64_t now_us, uint64_t *wake_us)
{
	const struct central_part *part = &pool->part;
	unsigned worker;

	if (central_read(&part->whole->waiting) <= (int)part->waiters.count ||
	    pool->is_killed || pool_is_paused(pool))
		return -1;
	if (central_is_frozen(exchange_view(pool)->central)) {
		*wake_us = time_earlier(*wake_us, now_us + EXCHANGE_OWN_US);
		return -1;
	}
	exchange_lock(pool);
	const struct pool_request *other =
	    first_of_others(pool, now_us, &worker, wake_us);
	bool is_first =
	    other && (!first || other->queued_us + PREFERENCE_US < first->queued_us);
	exchange_unlock(pool);
	return is_first ? (int)worker : -1;
}

static uint64_t since(const struct list *requests)
{
	const struct node *first = list_first(requests);

	return first ? container_of(first, const struct pool_request, kind_node)
			   ->queued_us
		     : UINT64_MAX;
}

uint64_t exchange_first_since(const struct pool *pool)
{
	const struct central_pool *whole = pool->part.whole;
	uint64_t first_us = UINT64_MAX;

	for (unsigned i = 0; i < exchange_view(pool)->central->worker_count; i++) {
		const struct central_part *part = whole->places[i].part;
		if (part && !part->is_closed)
			first_us = time_earlier(first_us, since(&part->waiters));
	}
	return first_us;
}

bool exchange_has_replica_first(const struct central_part *part)
{
	const struct pool *pool = container_of(part, const struct pool, part);

	return since(&pool->replicas) < since(&part->waiters);
}

/* ---- where servers rest ---- */

/* Returns the worker with the most of them, of those that answer; -1: none has one.
 * One that does not is told to look at the pool when it does. */
static int find_resting(const struct pool *pool)
{
	struct central_view *view = exchange_view(pool);
	struct central_pool *whole = pool->part.whole;
	int best = -1, most = 0;

	for (unsigned i = 0; i < view->central->worker_count; i++) {
		const struct central_part *part = whole->places[i].part;
		/* sequentially consistent, with slots.c: either a worker sees that
		 * somebody waits, or its server is seen here */
		int count = part && i != view->worker ? atomic_load(&part->resting) : 0;
		if (count > 0 && central_is_unresponsive(view, i)) {
			central_tell(view, i, NOTE_LOOK, whole, NULL);
		} else if (count > most) {
			most = count;
			best = (int)i;
		}
	}
	return best;
}

int exchange_available(const struct pool *pool)
{
	const struct central_view *view = exchange_view(pool);
	size_t own = pool->slots[SLOT_IDLE].count + pool->slots[SLOT_USED].count;
	int sum = 0;

	exchange_lock(pool);
	for (unsigned i = 0; i < view->central->worker_count; i++) {
		const struct central_place *place = &pool->part.whole->places[i];
		if (place->part && !central_is_unresponsive(view, i))
			sum +=
			    place->arriving +
			    (i == view->worker ? (int)own
					       : central_read(&place->part->resting));
	}
	exchange_unlock(pool);
	return sum;
}

static bool await_help(struct pool *pool, const struct pool_request *first,
    uint64_t now_us, uint64_t *wake_us)
{
	struct central_part *part = &pool->part;
	const struct central_place *own = &part->whole->places[part->worker];

	if (arriving_at(own, now_us) >= (int)part->waiters.count) {
		*wake_us =
		    time_earlier(*wake_us, own->arriving_us + CENTRAL_PATIENCE_US);
		return true;
	}
	int worker = find_resting(pool);
	if (worker < 0)
		pool->turn.asked_us = 0;
	/* it may come first without an event, when those before it leave */
	const struct pool_request *last =
	    container_of(list_last(&part->waiters), struct pool_request, kind_node);
	if (now_us < last->queued_us + EXCHANGE_OWN_US)
		*wake_us = time_earlier(*wake_us, last->queued_us + EXCHANGE_OWN_US);
	if (!is_due(part, first, now_us)) {
		*wake_us = time_earlier(*wake_us, first->queued_us + EXCHANGE_OWN_US);
		return worker >= 0;
	}
	/* others know of clients that have no server here at all */
	if (central_read(&part->connected))
		part->looked_us = first->queued_us;
	/* one that comes to rest from now on is sent here by its worker */
	if (worker < 0)
		return false;
	if (!pool->turn.asked_us)
		pool->turn.asked_us = now_us;
	central_tell(
	    exchange_view(pool), (unsigned)worker, NOTE_LOOK, pool->part.whole, NULL);
	bool is_overdue = now_us >= pool->turn.asked_us + ANSWER_US;
	/* one that stands still is known as such only after a while, and then another
	 * one is asked */
	uint64_t due_us = (is_overdue ? now_us : pool->turn.asked_us) + ANSWER_US;
	*wake_us = time_earlier(*wake_us, due_us);
	return !is_overdue;
}

bool exchange_await_help(struct pool *pool, const struct pool_request *first,
    uint64_t now_us, uint64_t *wake_us)
{
	if (!first || !exchange_has_workers(pool)) {
		pool->turn.asked_us = 0;
		return false;
	}
	exchange_lock(pool);
	bool is_so = await_help(pool, first, now_us, wake_us);
	exchange_unlock(pool);
	return is_so;
}

/* ---- telling ---- */

void exchange_tell(struct central_view *view, const struct central_part *part)
{
	if (part->worker == view->worker)
		pool_schedule(container_of(part, struct pool, part));
	else
		central_tell(view, part->worker, NOTE_LOOK, part->whole, NULL);
}

void exchange_tell_waiting(struct central_view *view, struct central_pool *whole)
{
	if (!central_read(&whole->queued))
		return;
	central_lock(view);
	for (unsigned i = 0; i < view->central->worker_count; i++) {
		const struct central_part *part = whole->places[i].part;
		if (part && (part->wants_params || !list_is_empty(&part->waiters)))
			exchange_tell(view, part);
	}
	central_unlock(view);
}

void exchange_tell_resting(const struct pool *pool, enum note_kind kind)
{
	exchange_lock(pool);
	int worker = find_resting(pool);
	if (worker >= 0)
		central_tell(exchange_view(pool), (unsigned)worker, kind,
		    pool->part.whole, NULL);
	exchange_unlock(pool);
}

void exchange_tell_clients(const struct pool *pool)
{
	struct central_view *view = exchange_view(pool);

	exchange_lock(pool);
	for (unsigned i = 0; i < view->central->worker_count; i++) {
		const struct central_part *part = pool->part.whole->places[i].part;
		if (part && i != view->worker && central_read(&part->clients) > 0 &&
		    !central_is_unresponsive(view, i)) {
			exchange_tell(view, part);
			break;
		}
	}
	exchange_unlock(pool);
}

void exchange_ask_for_room(const struct pool *pool, enum conn_limit kind)
{
	struct central_view *view = exchange_view(pool);
	struct central_limit *limit = pool->part.whole->limits[kind];
	int best = -1, most = 0;

	for (unsigned i = 0; i < view->central->worker_count; i++) {
		int count =
		    i == view->worker ? 0 : central_read(&limit->lines[i].resting);
		if (count > most && !central_is_unresponsive(view, i)) {
			most = count;
			best = (int)i;
		}
	}
	if (best < 0)
		return;
	central_lock(view);
	central_tell(view, (unsigned)best, NOTE_MAKE_ROOM, NULL, limit);
	central_unlock(view);
}
