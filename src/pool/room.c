/*
 * The queues for room under the limits of databases and users: heaps by the time at
 * which the first client of a pool began to wait.
 */
#include "pool/room.h"

#include "pool/seats.h"

/* A connection is closed for another pool's client when that one has waited longer by
 * as much as the own one has, but at least and at most this: a new connection is dear,
 * and pools that are equally busy are not to take turns with every transaction. */
enum { LEAST_LEAD_US = 10000, MOST_LEAD_US = 200000 };

/* UINT64_MAX: nobody waits. */
static uint64_t waiting_since(const struct pool *pool)
{
	struct node *first = list_first(&pool->waiting);

	return first ? container_of(first, struct ask, node)->queued_us : UINT64_MAX;
}

static struct pool *first_of_database(const struct database *db)
{
	struct heap_node *first = heap_first(&db->starving);

	return first ? container_of(first, struct pool, db_room_node) : NULL;
}

static struct pool *first_of_user(const struct user *user)
{
	struct heap_node *first = heap_first(&user->starving);

	return first ? container_of(first, struct pool, user_room_node) : NULL;
}

static void tell(struct pool *first)
{
	if (first)
		pool_kick(first);
}

/* The first pool that waits for room looks whether it can use what there is now.  It
 * leaves the queue when it could, or does not need it any more, and that tells the
 * next. */
void room_offer(const struct pool *pool)
{
	tell(first_of_database(pool->database));
	tell(first_of_user(pool->user));
}

/* True when it has left. */
static bool is_moved_out(
    struct heap *heap, struct heap_node *node, bool is_wanted, uint64_t since_us)
{
	bool was_wanted = heap_has(node);

	if (was_wanted && (!is_wanted || node->key != since_us))
		heap_remove(heap, node);
	if (is_wanted && !heap_has(node))
		heap_put(heap, node, since_us);
	return was_wanted && !is_wanted;
}

void room_want(struct pool *pool, bool of_database, bool of_user)
{
	struct database *db = pool->database;
	struct user *user = pool->user;
	uint64_t since_us = waiting_since(pool);

	if (is_moved_out(&db->starving, &pool->db_room_node, of_database, since_us))
		tell(first_of_database(db));
	if (is_moved_out(&user->starving, &pool->user_room_node, of_user, since_us))
		tell(first_of_user(user));
}

void room_reorder(struct pool *pool)
{
	room_want(pool, heap_has(&pool->db_room_node), heap_has(&pool->user_room_node));
}

static bool is_before(const struct pool *other, const struct pool *pool)
{
	return other && other != pool && waiting_since(other) < waiting_since(pool);
}

bool room_is_before_in_database(const struct pool *pool)
{
	return is_before(first_of_database(pool->database), pool);
}

bool room_is_before_of_user(const struct pool *pool)
{
	return is_before(first_of_user(pool->user), pool);
}

static uint64_t lead_us(const struct pool *pool, uint64_t now_us)
{
	uint64_t since_us = waiting_since(pool);
	uint64_t own_us = since_us < now_us ? now_us - since_us : 0;

	if (own_us < LEAST_LEAD_US)
		return LEAST_LEAD_US;
	return own_us < MOST_LEAD_US ? own_us : MOST_LEAD_US;
}

static bool is_far_before(
    const struct pool *other, const struct pool *pool, uint64_t lead)
{
	return is_before(other, pool) &&
	       waiting_since(pool) - waiting_since(other) > lead;
}

bool room_is_owed(const struct pool *pool, uint64_t now_us)
{
	const struct pool *in_database = first_of_database(pool->database);
	const struct pool *of_user = first_of_user(pool->user);

	if (!in_database && !of_user)
		return false;
	uint64_t lead = lead_us(pool, now_us);
	return is_far_before(in_database, pool, lead) ||
	       is_far_before(of_user, pool, lead);
}
