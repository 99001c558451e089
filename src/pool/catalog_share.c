/*
 * What a catalog counts together with those of other sites: its tallies, and clients
 * against their limits.
 */
#include <assert.h>

#include "pool/catalog_parts.h"
#include "pool/pool.h"
#include "pool/scopes.h"

void catalog_share(
    struct catalog *c, struct tallies *tallies, unsigned site, unsigned site_count)
{
	c->view = (struct tally_view){
	    .tallies = tallies, .site = site, .site_count = site_count};
	c->tally = tally_hold(tallies, TALLY_PROCESS, NULL, NULL);
}

void catalog_share_user(struct user *user)
{
	const struct tally_view *view = &user->catalog->view;

	if (view->tallies && !user->tally)
		user->tally = tally_hold(view->tallies, TALLY_USER, NULL, user->name);
}

void catalog_share_database(struct database *db)
{
	const struct tally_view *view = &db->catalog->view;

	if (view->tallies && !db->tally && !db->is_admin)
		db->tally = tally_hold(view->tallies, TALLY_DATABASE, db->name, NULL);
}

void catalog_share_pool(struct pool *pool)
{
	const struct tally_view *view = &pool->database->catalog->view;

	catalog_share_user(pool->user);
	catalog_share_database(pool->database);
	if (view->tallies && !pool->database->is_admin)
		pool->tally = tally_hold(
		    view->tallies, TALLY_POOL, pool->database->name, pool->user->name);
}

bool catalog_may_enter(
    const struct tally_view *view, struct tally *tally, int *count, int limit)
{
	tallies_lock(view->tallies);
	int sum = ++*count;
	if (tally) {
		tally_add(&tally_own(view, tally)->clients, 1);
		/* our slot also has those on their way to us */
		sum = tally_clients(view, tally);
	}
	tallies_unlock(view->tallies);
	return limit <= 0 || sum <= limit;
}

/* The lock keeps others from reading the sum when one slot has changed and the other
 * has not. */
void catalog_carry(
    const struct tally_view *view, struct tally *tally, int *count, unsigned to)
{
	--*count;
	tallies_lock(view->tallies);
	tally_add(&tally_own(view, tally)->clients, -1);
	tally_add(&tally->slots[to].clients, 1);
	tallies_unlock(view->tallies);
}

static void lose(
    struct catalog *c, enum tally_kind kind, const char *database, const char *user)
{
	struct tally *tally = tally_hold(c->view.tallies, kind, database, user);

	tally_add(&tally_own(&c->view, tally)->clients, -1);
	tally_release(c->view.tallies, &tally);
}

void catalog_lose_client(struct catalog *c, const char *database, const char *user)
{
	lose(c, TALLY_DATABASE, database, NULL);
	lose(c, TALLY_USER, NULL, user);
}

void catalog_leave(const struct tally_view *view, struct tally *tally, int *count)
{
	--*count;
	if (tally)
		tally_add(&tally_own(view, tally)->clients, -1);
}
