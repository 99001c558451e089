/*
 * Answers the wishes of other sites.  elsewhere.c decides what to wish for.
 */
#include "pool/wishes.h"

#include "pool/elsewhere.h"
#include "pool/pool_effective.h"
#include "pool/queue.h"
#include "pool/room.h"
#include "pool/seats.h"

static struct verdict nothing(void)
{
	return (struct verdict){.kind = VERDICT_NONE, .wake_us = UINT64_MAX};
}

struct pool *wishes_pool(struct catalog *c, const char *database, const char *user)
{
	struct database *db = catalog_find_database(c, database);
	struct user *found = db ? catalog_find_user(c, user) : NULL;

	return found ? catalog_find_pool_as(db, found) : NULL;
}

static struct verdict give_server(
    struct catalog *c, const struct wish *wish, uint64_t now_us)
{
	struct pool *pool = wishes_pool(c, wish->database, wish->user);

	if (!pool || pool_is_paused(pool) || pool->is_killed)
		return nothing();
	/* the site that asked may not be the one whose client has waited longest */
	int receiver = elsewhere_receiver(pool, queue_first_seeker(pool), now_us);
	if (receiver < 0)
		return nothing();
	struct seat *seat = queue_idle_seat(pool);
	if (!seat && !list_is_empty(&pool->seats[SEAT_USED]))
		seat = container_of(
		    list_first(&pool->seats[SEAT_USED]), struct seat, node);
	if (!seat || seat->is_dirty)
		return nothing();
	return seat_carry(seat, (unsigned)receiver);
}

/* Chooses the same seat that a pool of this site could have closed.  Who asks does so
 * again, so that time alone need not be waited for. */
static struct verdict give_room(
    struct catalog *c, const struct wish *wish, uint64_t now_us)
{
	struct seat *seat = NULL;
	uint64_t ignored = UINT64_MAX;

	if (wish->of == TALLY_DATABASE) {
		struct database *db = catalog_find_database(c, wish->database);
		seat = db ? room_free_of_database(db) : NULL;
	} else if (wish->of == TALLY_USER) {
		struct user *user = catalog_find_user(c, wish->user);
		seat = user ? room_free_of_user(user) : NULL;
	} else if (wish->of == TALLY_POOL) {
		struct pool *pool = wishes_pool(c, wish->database, wish->user);
		seat = pool ? pool_longest_resting(pool) : NULL;
	} else {
		seat = room_evictable_of_process(c, wish->since_us, now_us, &ignored);
	}
	return seat ? seat_retire(seat, "evicted") : nothing();
}

static void look_again(struct catalog *c, const struct wish *wish)
{
	struct database *db =
	    wish->database ? catalog_find_database(c, wish->database) : NULL;
	struct user *user = wish->user ? catalog_find_user(c, wish->user) : NULL;
	struct pool *pool = NULL;

	if (wish->of == TALLY_POOL) {
		pool = wishes_pool(c, wish->database, wish->user);
		if (pool) {
			pool->vain_us = 0;
			pool_kick(pool);
		}
	} else if (wish->of == TALLY_DATABASE && db) {
		room_tell_first(&db->starving, ROOM_DATABASE);
	} else if (wish->of == TALLY_USER && user) {
		room_tell_first(&user->starving, ROOM_USER);
	} else if (wish->of == TALLY_PROCESS) {
		room_tell_first(&c->starving, ROOM_PROCESS);
	}
}

struct verdict wishes_hear(struct catalog *c, const struct wish *wish, uint64_t now_us)
{
	catalog_note_time(c, now_us);
	/* what was described to another process must stay as it is */
	if (c->is_offered)
		return nothing();
	switch (wish->kind) {
	case WISH_SERVER:
		return give_server(c, wish, now_us);
	case WISH_ROOM:
		return give_room(c, wish, now_us);
	case WISH_LOOK:
		look_again(c, wish);
		break;
	case WISH_WELCOME:
		break;
	}
	return nothing();
}

void wishes_lost(
    struct catalog *c, const char *database, const char *user, unsigned from)
{
	static const enum tally_kind kinds[] = {
	    TALLY_POOL, TALLY_USER, TALLY_DATABASE, TALLY_PROCESS};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		bool has_database =
		    kinds[i] == TALLY_POOL || kinds[i] == TALLY_DATABASE;
		bool has_user = kinds[i] == TALLY_POOL || kinds[i] == TALLY_USER;
		struct tally *tally = tally_hold(c->view.tallies, kinds[i],
		    has_database ? database : NULL, has_user ? user : NULL);
		tally_add(&tally->slots[from].servers, -1);
		if (kinds[i] == TALLY_POOL)
			tally_add(&tally_own(&c->view, tally)->arriving, -1);
		elsewhere_tell_named(c, tally, database, user);
		tally_release(c->view.tallies, &tally);
		look_again(c,
		    &(struct wish){.of = kinds[i], .database = database, .user = user});
	}
}

void wishes_answered(struct pool *pool, bool has_server, uint64_t now_us)
{
	pool->wished_us = 0;
	pool->vain_us = has_server ? 0 : now_us;
	pool_kick(pool);
}
