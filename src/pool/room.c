/*
 * The queues for room under limits that pools share: heaps ordered by the time since
 * when the first client of a pool waits.
 *
 * The limit of the process is shared more carefully than the others, because its pools
 * have nothing else in common: a pool without any server comes before pools that have
 * some, and the servers of min_pool_size are given up last.
 */
#include "pool/room.h"

#include "pool/elsewhere.h"
#include "pool/pool_effective.h"
#include "pool/scopes.h"
#include "pool/seats.h"

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

/* Base of keys in catalog->spare, so that the pool with the most spare seats has the
 * least key. */
enum { SPARE_KEY_BASE = 1 << 30 };

const char room_surplus_reason[] = "too many servers (max_server_connections)";

/* ---- the limits ---- */

static const char *const settings[ROOM_COUNT] = {
    [ROOM_USER] = "max_user_connections",
    [ROOM_DATABASE] = "max_db_connections",
    [ROOM_PROCESS] = "max_server_connections",
};

static struct heap *queue_of(const struct pool *pool, enum room_kind kind)
{
	if (kind == ROOM_USER)
		return &pool->user->starving;
	return kind == ROOM_DATABASE ? &pool->database->starving
				     : &pool->database->catalog->starving;
}

static int *count_of(const struct pool *pool, enum room_kind kind)
{
	if (kind == ROOM_USER)
		return &pool->user->server_count;
	return kind == ROOM_DATABASE ? &pool->database->server_count
				     : &pool->database->catalog->server_count;
}

/* 0: there is no limit. */
static int limit_of(const struct pool *pool, enum room_kind kind)
{
	int limit;

	if (kind == ROOM_USER)
		limit = scope_max_user_connections(scope_of_user(pool->user));
	else if (kind == ROOM_DATABASE)
		limit = scope_max_db_connections(scope_of_database(pool->database));
	else
		limit = scope_max_server_connections(scope_of_pool(pool));
	return limit > 0 ? limit : 0;
}

static struct tally *tally_of(const struct pool *pool, enum room_kind kind)
{
	if (kind == ROOM_USER)
		return pool->user->tally;
	return kind == ROOM_DATABASE ? pool->database->tally
				     : pool->database->catalog->tally;
}

static const struct tally_view *view_of(const struct pool *pool)
{
	return &pool->database->catalog->view;
}

/* The sum with other sites. */
static int total_of(const struct pool *pool, enum room_kind kind)
{
	const struct tally *tally = tally_of(pool, kind);

	return tally ? tally_servers(view_of(pool), tally) : *count_of(pool, kind);
}

bool room_is_full(const struct pool *pool, enum room_kind kind)
{
	int limit = limit_of(pool, kind);

	return limit && total_of(pool, kind) >= limit;
}

bool room_is_exceeded(const struct pool *pool)
{
	int limit = limit_of(pool, ROOM_PROCESS);

	return limit && total_of(pool, ROOM_PROCESS) > limit;
}

/* ---- who waits ---- */

/* UINT64_MAX: nobody waits. */
static uint64_t waiting_since(const struct pool *pool)
{
	struct node *first = list_first(&pool->waiting);

	return first ? container_of(first, struct ask, node)->queued_us : UINT64_MAX;
}

/* Returns the same for the clients of all sites. */
static uint64_t waiting_anywhere_since(const struct pool *pool)
{
	uint64_t own_us = waiting_since(pool), other_us;

	if (tally_find_waiting(view_of(pool), pool->tally, &other_us) < 0)
		return own_us;
	return other_us < own_us ? other_us : own_us;
}

/* Whether no server of the pool can become free for its first waiting client. */
static bool has_nothing(const struct pool *pool, size_t connected)
{
	struct node *first = list_first(&pool->waiting);

	return !connected || (first && container_of(first, struct ask, node)->kind ==
					   ASK_REPLICATION);
}

/* The pool's place in the queue if it had so many servers and its first client waited
 * since then: a time, and the least comes first. */
static uint64_t place_with(
    const struct pool *pool, enum room_kind kind, size_t connected, uint64_t since_us)
{
	if (kind != ROOM_PROCESS || since_us == UINT64_MAX)
		return since_us;
	return since_us + (has_nothing(pool, connected) ? 0 : PATIENCE_US);
}

uint64_t room_place(const struct pool *pool, enum room_kind kind)
{
	return place_with(
	    pool, kind, pool_connected_everywhere(pool), waiting_since(pool));
}

static struct pool *first_of(const struct heap *starving, enum room_kind kind)
{
	struct heap_node *first = heap_first(starving);

	return first ? container_of(first - kind, struct pool, room_nodes[0]) : NULL;
}

static struct pool *first_in(const struct pool *pool, enum room_kind kind)
{
	return first_of(queue_of(pool, kind), kind);
}

void room_tell_first(const struct heap *starving, enum room_kind kind)
{
	struct pool *first = first_of(starving, kind);

	if (first)
		pool_kick(first);
}

/* Kicks the first pool in the queue, which checks whether it can use the room.  When it
 * could, or does not need it any more, it leaves the queue, and then the next pool is
 * told. */
void room_offer(const struct pool *pool)
{
	for (enum room_kind kind = 0; kind < ROOM_COUNT; kind++)
		room_tell_first(queue_of(pool, kind), kind);
}

/* True: the pool has left, or is no longer the first. */
static bool is_moved_out(
    struct heap *heap, struct heap_node *node, bool is_wanted, uint64_t key)
{
	bool was_wanted = heap_has(node), was_first = heap_first(heap) == node;

	if (was_wanted && (!is_wanted || node->key != key))
		heap_remove(heap, node);
	if (is_wanted && !heap_has(node))
		heap_put(heap, node, key);
	return (was_wanted && !is_wanted) || (was_first && heap_first(heap) != node);
}

/* Publishes since when somebody waits here.  A site that was told of room and has taken
 * what it needs tells the next one if there is more. */
static void note_waiting(const struct pool *pool, enum room_kind kind)
{
	const struct heap_node *first = heap_first(queue_of(pool, kind));
	struct tally *tally = tally_of(pool, kind);

	/* A killed one stands in no queue, and that of its database may be another's
	 * now. */
	if (tally && !pool->is_killed &&
	    tally_note_waiting(view_of(pool), tally, first ? first->key : 0) &&
	    !room_is_full(pool, kind))
		elsewhere_tell_next(pool, tally);
}

void room_want(struct pool *pool, unsigned wanted)
{
	for (enum room_kind kind = 0; kind < ROOM_COUNT; kind++) {
		struct heap_node *node = &pool->room_nodes[kind];
		bool is_wanted = wanted & ROOM_BIT(kind);
		if ((is_wanted || heap_has(node)) &&
		    is_moved_out(
			queue_of(pool, kind), node, is_wanted, room_place(pool, kind)))
			room_tell_first(queue_of(pool, kind), kind);
		note_waiting(pool, kind);
	}
}

unsigned room_limited(const struct pool *pool)
{
	unsigned limited = 0;

	for (enum room_kind kind = 0; kind < ROOM_COUNT; kind++)
		limited |= limit_of(pool, kind) ? ROOM_BIT(kind) : 0;
	return limited;
}

static unsigned wanted_rooms(const struct pool *pool)
{
	unsigned wanted = 0;

	for (enum room_kind kind = 0; kind < ROOM_COUNT; kind++)
		wanted |= heap_has(&pool->room_nodes[kind]) ? ROOM_BIT(kind) : 0;
	return wanted;
}

bool room_is_wanted(const struct pool *pool)
{
	return wanted_rooms(pool) != 0;
}

void room_reorder(struct pool *pool)
{
	room_want(pool, wanted_rooms(pool));
}

void room_forget(struct pool *pool)
{
	room_want(pool, 0);
	if (heap_has(&pool->spare_node))
		heap_remove(&pool->database->catalog->spare, &pool->spare_node);
}

const char *room_lacked(const struct pool *pool, int *limit)
{
	unsigned wanted = wanted_rooms(pool);
	enum room_kind kind = 0;

	if (!wanted)
		return NULL;
	/* it may stand in queues for limits that have room, see room.h */
	while (!(wanted & ROOM_BIT(kind)) ||
	       (!room_is_full(pool, kind) && wanted >> (kind + 1)))
		kind++;
	*limit = limit_of(pool, kind);
	return settings[kind];
}

enum room_kind room_before(const struct pool *pool, uint64_t *place_us)
{
	enum room_kind found = ROOM_COUNT;

	*place_us = UINT64_MAX;
	for (enum room_kind kind = 0; kind < ROOM_COUNT; kind++) {
		const struct pool *other = first_in(pool, kind);
		if (!limit_of(pool, kind) || !other || other == pool)
			continue;
		uint64_t theirs_us = room_place(other, kind);
		if (theirs_us < room_place(pool, kind) && theirs_us < *place_us) {
			found = kind;
			*place_us = theirs_us;
		}
	}
	return found;
}

/* ---- what counts ---- */

/* Cancel requests are never refused for lack of room, and PostgreSQL does not count
 * them either, so many of them at once must not cost a client its server. */
static enum room_kind narrower_rooms(bool is_cancel)
{
	return is_cancel ? ROOM_PROCESS : ROOM_COUNT;
}

static void count(const struct pool *pool, bool is_cancel, int change)
{
	for (enum room_kind kind = 0; kind < narrower_rooms(is_cancel); kind++)
		*count_of(pool, kind) += change;
}

/* Changes the counts in the slot of a site, which the other sites read. */
static void count_for_all(struct pool *pool, unsigned site, bool is_cancel, int change)
{
	if (!pool->tally)
		return;
	for (enum room_kind kind = 0; kind < narrower_rooms(is_cancel); kind++)
		tally_add(&tally_of(pool, kind)->slots[site].servers, change);
	tally_add(&pool->tally->slots[site].servers, change);
}

void room_claim(struct pool *pool)
{
	count_for_all(pool, view_of(pool)->site, false, 1);
	pool->has_claim = pool->tally != NULL;
}

void room_take(struct pool *pool, bool is_cancel)
{
	count(pool, is_cancel, 1);
	if (!pool->has_claim || is_cancel)
		count_for_all(pool, view_of(pool)->site, is_cancel, 1);
	else
		pool->has_claim = false;
	room_note(pool);
}

void room_give(struct pool *pool, bool is_cancel)
{
	count(pool, is_cancel, -1);
	count_for_all(pool, view_of(pool)->site, is_cancel, -1);
	room_note(pool);
	room_offer(pool);
	elsewhere_tell_of_room(pool);
}

void room_carry_out(struct pool *pool)
{
	count(pool, false, -1);
	room_note(pool);
}

void room_carry_in(struct pool *pool, unsigned from)
{
	struct tallies *tallies = view_of(pool)->tallies;

	count(pool, false, 1);
	tallies_lock(tallies);
	count_for_all(pool, from, false, -1);
	count_for_all(pool, view_of(pool)->site, false, 1);
	tallies_unlock(tallies);
	room_note(pool);
}

void room_carry_nowhere(struct pool *pool, unsigned to)
{
	tally_add(&pool->tally->slots[to].arriving, -1);
	count_for_all(pool, view_of(pool)->site, false, -1);
	pool_kick(pool);
	room_offer(pool);
	elsewhere_tell_of_room(pool);
}

/* ---- who gives up what ---- */

/* Number of servers of all sites beyond those of min_pool_size; negative when there are
 * fewer. */
static int spare_count(const struct pool *pool)
{
	bool is_in_use =
	    !list_is_empty(&pool->clients) || !list_is_empty(&pool->waiting) ||
	    pool->user == pool->database->forced_user ||
	    (pool->tally && tally_clients_elsewhere(view_of(pool), pool->tally) > 0);

	return (int)pool_connected_everywhere(pool) -
	       (is_in_use ? pool_min_size(pool) : 0);
}

static bool has_seat_to_give(const struct pool *pool)
{
	return limit_of(pool, ROOM_PROCESS) && list_is_empty(&pool->seekers) &&
	       (!list_is_empty(&pool->seats[SEAT_IDLE]) ||
		   !list_is_empty(&pool->seats[SEAT_USED]));
}

void room_note(struct pool *pool)
{
	struct heap *spare = &pool->database->catalog->spare;
	struct heap_node *node = &pool->spare_node;
	bool is_wanted = has_seat_to_give(pool);

	if (is_wanted || heap_has(node))
		is_moved_out(spare, node, is_wanted,
		    (uint64_t)(SPARE_KEY_BASE - spare_count(pool)));
}

void room_note_all(struct catalog *c)
{
	struct pool *pool;

	if (c->config->settings.max_server_connections <= 0 && heap_is_empty(&c->spare))
		return;
	list_for (pool, &c->pool_list, node)
		room_note(pool);
}

/* Returns the pool with the most spare seats.  Other sites do not note here what they
 * change, so the first pool is noted again, until that does not move it. */
static const struct pool *richest(const struct catalog *c)
{
	struct heap_node *first = heap_first(&c->spare), *before = NULL;

	while (c->view.tallies && first && first != before) {
		before = first;
		room_note(container_of(first, struct pool, spare_node));
		first = heap_first(&c->spare);
	}
	return first ? container_of(first, struct pool, spare_node) : NULL;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

struct seat *room_evictable_of_process(
    const struct catalog *c, uint64_t place_us, uint64_t now_us, uint64_t *wake_us)
{
	const struct pool *rich = richest(c);

	if (!rich)
		return NULL;
	struct seat *seat = pool_longest_resting(rich);
	uint64_t due_us = place_us;
	if (spare_count(rich) > 0) {
		uint64_t fresh_us = pool_connected_everywhere(rich) > 1 ? 0 : FRESH_US;
		due_us = earlier(place_us, seat->rested_us + fresh_us);
	}
	if (due_us <= now_us)
		return seat;
	*wake_us = earlier(*wake_us, due_us);
	return NULL;
}

/* Returns the longest resting seat that no waiting client of its own pool could have.
 * Such clients are rare, because a resting seat serves them at once; so usually the
 * first seat is taken. */
struct seat *room_free_of_database(const struct database *db)
{
	struct seat *seat;

	list_for (seat, &db->resting, db_node) {
		if (list_is_empty(&seat->pool->seekers))
			return seat;
	}
	return NULL;
}

struct seat *room_free_of_user(const struct user *user)
{
	struct seat *seat;

	list_for (seat, &user->resting, user_node) {
		if (list_is_empty(&seat->pool->seekers))
			return seat;
	}
	return NULL;
}

static struct seat *free_of_process(const struct catalog *c)
{
	const struct pool *rich = richest(c);

	return rich ? pool_longest_resting(rich) : NULL;
}

struct seat *room_evictable(
    const struct pool *pool, enum room_kind kind, uint64_t now_us, uint64_t *wake_us)
{
	if (kind == ROOM_USER)
		return room_free_of_user(pool->user);
	if (kind == ROOM_DATABASE)
		return room_free_of_database(pool->database);
	return room_evictable_of_process(
	    pool->database->catalog, room_place(pool, kind), now_us, wake_us);
}

struct seat *room_surplus(const struct pool *pool)
{
	return room_is_exceeded(pool) ? free_of_process(pool->database->catalog) : NULL;
}

static uint64_t lead_us(uint64_t since_us, uint64_t now_us)
{
	uint64_t own_us = since_us < now_us ? now_us - since_us : 0;

	if (own_us < LEAST_LEAD_US)
		return LEAST_LEAD_US;
	return own_us < MOST_LEAD_US ? own_us : MOST_LEAD_US;
}

/* Whether a client with the place theirs_us comes before the pool's clients, the first
 * of which has waited since since_us.  The place of the pool is computed as if it had
 * one seat less. */
static bool is_owed_to(uint64_t theirs_us, const struct pool *pool, uint64_t since_us,
    enum room_kind kind, uint64_t now_us)
{
	uint64_t own_us =
	    place_with(pool, kind, pool_connected_everywhere(pool) - 1, since_us);
	/* Kept by min_pool_size, or left to a pool that may use it again at once. */
	bool is_kept =
	    kind == ROOM_PROCESS && (spare_count(pool) <= 0 || since_us == UINT64_MAX);

	if (is_kept && theirs_us > now_us)
		return false;
	return theirs_us < own_us && own_us - theirs_us > lead_us(since_us, now_us);
}

/* If no client waits for the seat it becomes idle.  The pools of this site that wait
 * for room are told then, and can close it before it is used again. */
static bool is_owed_here(
    const struct pool *pool, uint64_t since_us, enum room_kind kind, uint64_t now_us)
{
	const struct pool *other = first_in(pool, kind);

	return other && other != pool && since_us != UINT64_MAX &&
	       room_is_full(pool, kind) &&
	       is_owed_to(room_place(other, kind), pool, since_us, kind, now_us);
}

/* The same for the client of another site that has waited longest.  If there is room,
 * that site has been told already. */
static bool is_owed_elsewhere(
    const struct pool *pool, uint64_t since_us, enum room_kind kind, uint64_t now_us)
{
	uint64_t theirs_us;

	return tally_find_waiting(view_of(pool), tally_of(pool, kind), &theirs_us) >=
		   0 &&
	       room_is_full(pool, kind) &&
	       is_owed_to(theirs_us, pool, since_us, kind, now_us);
}

bool room_is_owed(const struct pool *pool, uint64_t now_us)
{
	uint64_t since_us = waiting_anywhere_since(pool);

	for (enum room_kind kind = 0; kind < ROOM_COUNT; kind++)
		if (is_owed_here(pool, since_us, kind, now_us) ||
		    is_owed_elsewhere(pool, since_us, kind, now_us))
			return true;
	return false;
}
