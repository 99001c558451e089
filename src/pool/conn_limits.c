/*
 * The queues for room under limits that pools share: heaps ordered by the time since
 * when the first client of a pool waits.
 *
 * The limit of the process is shared more carefully than the others, because its pools
 * have nothing else in common: a pool without any server comes before pools that have
 * some, and the servers of min_pool_size are given up last.
 */
#include "pool/conn_limits.h"

#include "base/time_us.h"
#include "pool/exchange.h"
#include "pool/pool_effective.h"
#include "pool/queue.h"
#include "pool/scopes.h"
#include "pool/slots.h"

/* A connection is closed for another pool's client when that client has waited twice as
 * long as the own one; the lead is at least and at most these values.  A new connection
 * is expensive, and equally busy pools must not take turns with every transaction. */
enum { LEAST_LEAD_US = 10000, MOST_LEAD_US = 200000 };

/* Under the limit of the process: the lead of a pool without servers; and how long the
 * others wait until they, too, get the servers that min_pool_size keeps. */
enum { PATIENCE_US = 5000000 };

/* How long the only server of a pool is left to it after coming to rest.  Its clients
 * may be about to use it again, and a new one is expensive. */
enum { FRESH_US = 200000 };

/* Base of keys in catalog->spare, so that the pool with the most spare slots has the
 * least key. */
enum { SPARE_KEY_BASE = 1 << 30 };

const char conn_limits_surplus_reason[] = "too many servers (max_server_connections)";

/* ---- the limits ---- */

static const char *const settings[CONN_LIMIT_COUNT] = {
    [CONN_LIMIT_USER] = "max_user_connections",
    [CONN_LIMIT_DATABASE] = "max_db_connections",
    [CONN_LIMIT_PROCESS] = "max_server_connections",
};

static struct central_limit *limit_at(const struct pool *pool, enum conn_limit kind)
{
	return pool->part.whole->limits[kind];
}

int conn_limits_limit(const struct pool *pool, enum conn_limit kind)
{
	int limit;

	if (kind == CONN_LIMIT_USER)
		limit = scope_max_user_connections(scope_of_user(pool->user));
	else if (kind == CONN_LIMIT_DATABASE)
		limit = scope_max_db_connections(scope_of_database(pool->database));
	else
		limit = scope_max_server_connections(scope_of_pool(pool));
	return limit > 0 ? limit : 0;
}

bool conn_limits_is_full(const struct pool *pool, enum conn_limit kind)
{
	int limit = conn_limits_limit(pool, kind);

	return limit && central_read(&limit_at(pool, kind)->servers) >= limit;
}

bool conn_limits_is_pinned(const struct pool *pool, enum conn_limit kind)
{
	int limit = conn_limits_limit(pool, kind);

	return limit && central_read(&limit_at(pool, kind)->pinned) >= limit;
}

bool conn_limits_is_exceeded(const struct pool *pool, enum conn_limit kind)
{
	int limit = conn_limits_limit(pool, kind);

	return limit && central_read(&limit_at(pool, kind)->servers) > limit;
}

/* ---- who waits ---- */

/* The pool's place in the queue if it had so many servers and its first client waited
 * since then: a time, and the least comes first. */
static uint64_t place_with(
    const struct pool *pool, enum conn_limit kind, size_t connected, uint64_t since_us)
{
	const struct pool_request *first = queue_first(pool);
	/* no server of the pool can become free for its first client */
	bool has_nothing = !connected || (first && first->kind == REQUEST_REPLICATION);

	if (kind != CONN_LIMIT_PROCESS || since_us == UINT64_MAX || has_nothing)
		return since_us;
	return since_us + PATIENCE_US;
}

uint64_t conn_limits_place(const struct pool *pool, enum conn_limit kind)
{
	const struct pool_request *first = queue_first(pool);

	return place_with(pool, kind, pool_connected_everywhere(pool),
	    first ? first->queued_us : UINT64_MAX);
}

/* Under the lock: the part that comes first; NULL: nobody waits for this limit. */
static const struct central_part *first_of(const struct central_limit *limit)
{
	struct heap_node *first = heap_first(&limit->starving);

	return first ? container_of(first - limit->name.kind, const struct central_part,
			   rooms[0])
		     : NULL;
}

static void tell_first(struct central_view *view, const struct central_limit *limit)
{
	const struct central_part *first = first_of(limit);

	if (first)
		exchange_tell(view, first);
}

void conn_limits_tell_first(const struct pool *pool, enum conn_limit kind)
{
	exchange_lock(pool);
	tell_first(exchange_view(pool), limit_at(pool, kind));
	exchange_unlock(pool);
}

static bool is_anybody_starving(const struct central_view *view)
{
	return central_read(&view->central->starving) > 0;
}

static void offer(struct central_view *view, const struct central_pool *whole)
{
	if (!is_anybody_starving(view))
		return;
	central_lock(view);
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		tell_first(view, whole->limits[kind]);
	central_unlock(view);
}

/* Tells the first pool of each queue, which checks whether it can use the room.  When
 * it could, or does not need it any more, it leaves the queue, and then the next pool
 * is told. */
void conn_limits_offer(const struct pool *pool)
{
	offer(exchange_view(pool), pool->part.whole);
}

static void put(struct heap *heap, struct heap_node *node, bool is_wanted, uint64_t key)
{
	bool was_wanted = heap_has(node);

	if (was_wanted && (!is_wanted || node->key != key))
		heap_remove(heap, node);
	if (is_wanted && !heap_has(node))
		heap_put(heap, node, key);
}

/* Whoever becomes the first looks whether there is room; and who was the first looks
 * from time to time from now on, like all who are behind somebody. */
static void want(struct pool *pool, enum conn_limit kind, bool is_wanted)
{
	struct central_view *view = exchange_view(pool);
	struct central_limit *limit = limit_at(pool, kind);
	struct heap_node *node = &pool->part.rooms[kind];
	const struct central_part *before = first_of(limit), *after;
	bool leaves = heap_has(node) && !is_wanted;

	atomic_fetch_add(
	    &view->central->starving, (int)is_wanted - (int)heap_has(node));
	if (is_wanted)
		limit->most = conn_limits_limit(pool, kind);
	put(&limit->starving, node, is_wanted, conn_limits_place(pool, kind));
	after = first_of(limit);
	if (after && (leaves || after != before))
		exchange_tell(view, after);
	if (before && after != before && heap_has(&before->rooms[kind]))
		exchange_tell(view, before);
}

void conn_limits_want(struct pool *pool, unsigned wanted)
{
	unsigned changed = wanted | pool->part.wanted;

	if (!changed)
		return;
	exchange_lock(pool);
	pool->part.wanted = wanted;
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		if (changed & CONN_LIMIT_BIT(kind))
			want(pool, kind, wanted & CONN_LIMIT_BIT(kind));
	exchange_unlock(pool);
}

unsigned conn_limits_limited(const struct pool *pool)
{
	unsigned limited = 0;

	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		limited |= conn_limits_limit(pool, kind) ? CONN_LIMIT_BIT(kind) : 0;
	return limited;
}

bool conn_limits_is_wanted(const struct pool *pool)
{
	return pool->part.wanted != 0;
}

bool conn_limits_wants_several(const struct pool *pool)
{
	return pool->part.wanted & (pool->part.wanted - 1);
}

void conn_limits_reorder(struct pool *pool)
{
	conn_limits_want(pool, list_is_empty(&pool->waiting) ? 0 : pool->part.wanted);
}

void conn_limits_forget(struct pool *pool)
{
	conn_limits_want(pool, 0);
	if (heap_has(&pool->turn.spare_node))
		heap_remove(&pool->database->catalog->spare, &pool->turn.spare_node);
}

const char *conn_limits_lacked(const struct pool *pool, int *limit)
{
	unsigned wanted = pool->part.wanted;
	enum conn_limit kind = 0;

	if (!wanted)
		return NULL;
	/* it may stand in queues for limits that have room, see conn_limits.h */
	while (!(wanted & CONN_LIMIT_BIT(kind)) ||
	       (!conn_limits_is_full(pool, kind) && wanted >> (kind + 1)))
		kind++;
	*limit = conn_limits_limit(pool, kind);
	return settings[kind];
}

/* Under the lock: who comes first, unless that is the pool itself, or its worker does
 * not answer. */
static const struct central_part *other_first(
    const struct pool *pool, enum conn_limit kind)
{
	const struct central_part *first = first_of(limit_at(pool, kind));

	return first && first != &pool->part &&
		       !central_is_unresponsive(exchange_view(pool), first->worker)
		   ? first
		   : NULL;
}

enum conn_limit conn_limits_before(const struct pool *pool, uint64_t *place_us)
{
	enum conn_limit found = CONN_LIMIT_COUNT;

	*place_us = UINT64_MAX;
	if (!is_anybody_starving(exchange_view(pool)))
		return found;
	exchange_lock(pool);
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++) {
		const struct central_part *other = other_first(pool, kind);
		uint64_t theirs_us = other ? other->rooms[kind].key : UINT64_MAX;
		if (conn_limits_limit(pool, kind) &&
		    theirs_us < conn_limits_place(pool, kind) &&
		    theirs_us < *place_us) {
			found = kind;
			*place_us = theirs_us;
		}
	}
	exchange_unlock(pool);
	return found;
}

uint64_t conn_limits_first_place(
    struct central_view *view, const struct central_limit *limit)
{
	central_lock(view);
	const struct heap_node *first = heap_first(&limit->starving);
	bool is_short = first && central_read(&limit->servers) >= limit->most;
	uint64_t place_us = is_short ? first->key : UINT64_MAX;
	central_unlock(view);
	return place_us;
}

/* ---- what counts ---- */

/* Cancel requests are never refused for lack of room, and PostgreSQL does not count
 * them either, so many of them at once must not cost a client its server. */
static void count(struct central_pool *whole, bool is_cancel, int change)
{
	enum conn_limit end = is_cancel ? CONN_LIMIT_PROCESS : CONN_LIMIT_COUNT;

	for (enum conn_limit kind = 0; kind < end; kind++)
		atomic_fetch_add(&whole->limits[kind]->servers, change);
	atomic_fetch_add(&whole->servers, change);
}

void conn_limits_claim(struct pool *pool)
{
	count(pool->part.whole, false, 1);
	pool->turn.has_claim = true;
}

void conn_limits_unclaim(struct pool *pool)
{
	if (pool->turn.has_claim)
		count(pool->part.whole, false, -1);
	pool->turn.has_claim = false;
}

void conn_limits_take(struct pool *pool, bool is_cancel)
{
	if (pool->turn.has_claim && !is_cancel) {
		pool->turn.has_claim = false;
	} else {
		exchange_lock(pool);
		count(pool->part.whole, is_cancel, 1);
		exchange_unlock(pool);
	}
	conn_limits_note(pool);
}

void conn_limits_uncount(
    struct central_view *view, struct central_pool *whole, bool is_cancel)
{
	central_lock(view);
	count(whole, is_cancel, -1);
	exchange_tell_waiting(view, whole);
	offer(view, whole);
	central_unlock(view);
}

void conn_limits_give(struct pool *pool, bool is_cancel)
{
	conn_limits_note(pool);
	conn_limits_uncount(exchange_view(pool), pool->part.whole, is_cancel);
}

/* ---- who gives up what ---- */

/* Number of servers of all workers beyond those of min_pool_size; negative when there
 * are fewer. */
static int spare_count(const struct pool *pool)
{
	bool is_in_use = central_read(&pool->part.whole->clients) > 0 ||
			 pool->user == pool->database->forced_user;

	return (int)pool_connected_everywhere(pool) -
	       (is_in_use ? pool_min_size(pool) : 0);
}

void conn_limits_note(struct pool *pool)
{
	struct heap *spare = &pool->database->catalog->spare;
	struct heap_node *node = &pool->turn.spare_node;
	bool is_wanted = conn_limits_limit(pool, CONN_LIMIT_PROCESS) &&
			 list_is_empty(&pool->part.waiters) &&
			 (!list_is_empty(&pool->slots[SLOT_IDLE]) ||
			     !list_is_empty(&pool->slots[SLOT_USED]));

	if (!is_wanted && !heap_has(node))
		return;
	uint64_t key = (uint64_t)(SPARE_KEY_BASE - spare_count(pool));
	bool has_more = is_wanted && heap_has(node) && key < node->key;
	put(spare, node, is_wanted, key);
	/* one that min_pool_size has kept may be closed for others now */
	if (has_more)
		conn_limits_offer(pool);
}

void conn_limits_note_all(struct catalog *c)
{
	struct pool *pool;

	if (c->config->settings.max_server_connections <= 0 && heap_is_empty(&c->spare))
		return;
	list_for (pool, &c->pool_list, node)
		conn_limits_note(pool);
}

/* Returns the pool with the most spare slots.  Other workers do not note here what they
 * change, so the first pool is noted again, until that does not move it. */
static const struct pool *richest(const struct catalog *c)
{
	struct heap_node *first = heap_first(&c->spare), *before = NULL;

	while (first && first != before) {
		before = first;
		conn_limits_note(container_of(first, struct pool, turn.spare_node));
		first = heap_first(&c->spare);
	}
	return first ? container_of(first, struct pool, turn.spare_node) : NULL;
}

struct slot *conn_limits_evictable_of_process(
    const struct catalog *c, uint64_t place_us, uint64_t now_us, uint64_t *wake_us)
{
	const struct pool *rich = richest(c);

	if (!rich)
		return NULL;
	struct slot *slot = pool_longest_resting(rich);
	uint64_t due_us = place_us;
	if (spare_count(rich) > 0) {
		uint64_t fresh_us = pool_connected_everywhere(rich) > 1 ? 0 : FRESH_US;
		due_us = time_earlier(place_us, slot->rested_us + fresh_us);
	}
	if (due_us <= now_us)
		return slot;
	*wake_us = time_earlier(*wake_us, due_us);
	return NULL;
}

/* Returns the longest resting slot that no waiting client of its own pool could have.
 * Such clients are rare, because a resting slot serves them at once; so usually the
 * first slot is taken. */
struct slot *conn_limits_free_of_database(const struct database *db)
{
	struct slot *slot;

	list_for (slot, &db->resting, db_node) {
		if (list_is_empty(&slot->pool->part.waiters))
			return slot;
	}
	return NULL;
}

struct slot *conn_limits_free_of_user(const struct user *user)
{
	struct slot *slot;

	list_for (slot, &user->resting, user_node) {
		if (list_is_empty(&slot->pool->part.waiters))
			return slot;
	}
	return NULL;
}

struct slot *conn_limits_evictable(
    const struct pool *pool, enum conn_limit kind, uint64_t now_us, uint64_t *wake_us)
{
	if (kind == CONN_LIMIT_USER)
		return conn_limits_free_of_user(pool->user);
	if (kind == CONN_LIMIT_DATABASE)
		return conn_limits_free_of_database(pool->database);
	return conn_limits_evictable_of_process(
	    pool->database->catalog, conn_limits_place(pool, kind), now_us, wake_us);
}

struct slot *conn_limits_surplus(const struct pool *pool)
{
	const struct pool *rich = conn_limits_is_exceeded(pool, CONN_LIMIT_PROCESS)
				      ? richest(pool->database->catalog)
				      : NULL;

	return rich ? pool_longest_resting(rich) : NULL;
}

/* Whether a client with the place theirs_us comes before the pool's clients, the first
 * of which has waited since since_us.  The place of the pool is computed as if it had
 * one slot less. */
static bool is_owed_to(uint64_t theirs_us, const struct pool *pool, uint64_t since_us,
    enum conn_limit kind, uint64_t now_us)
{
	uint64_t own_us =
	    place_with(pool, kind, pool_connected_everywhere(pool) - 1, since_us);
	/* Kept by min_pool_size, or left to a pool that may use it again at once. */
	bool is_kept = kind == CONN_LIMIT_PROCESS &&
		       (spare_count(pool) <= 0 || since_us == UINT64_MAX);

	if (is_kept && theirs_us > now_us)
		return false;
	uint64_t waited_us = since_us < now_us ? now_us - since_us : 0;
	uint64_t lead_us =
	    time_earlier(time_later(waited_us, LEAST_LEAD_US), MOST_LEAD_US);
	return theirs_us < own_us && own_us - theirs_us > lead_us;
}

/* Clients of other workers could have the slot as well as those here.  If none of them
 * waits, the slot becomes idle, and a pool of this worker that waits for room is told
 * then, and closes the one that has rested longest. */
static bool is_owed(
    const struct pool *pool, uint64_t since_us, enum conn_limit kind, uint64_t now_us)
{
	const struct central_part *other = other_first(pool, kind);

	/* who could use the slot itself gets it */
	if (!other ||
	    (other->whole == pool->part.whole && !exchange_has_replica_first(other)))
		return false;
	return (since_us != UINT64_MAX || other->worker != pool->part.worker) &&
	       conn_limits_is_full(pool, kind) &&
	       is_owed_to(other->rooms[kind].key, pool, since_us, kind, now_us);
}

bool conn_limits_is_owed(const struct pool *pool, uint64_t now_us)
{
	bool is_so = false;

	if (!is_anybody_starving(exchange_view(pool)))
		return false;
	exchange_lock(pool);
	uint64_t since_us = exchange_first_since(pool);
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT && !is_so; kind++)
		is_so = is_owed(pool, since_us, kind, now_us);
	exchange_unlock(pool);
	return is_so;
}
