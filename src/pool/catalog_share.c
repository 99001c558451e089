/*
 * What a catalog counts together with those of other workers: clients against their
 * limits.
 */

#include "pool/catalog_parts.h"

void catalog_share(struct catalog *c, struct central *central, unsigned worker)
{
	struct central *own = c->view.is_owner ? c->view.central : NULL;

	if (c->limit)
		central_limit_release(&c->view, &c->limit);
	central_free(&own);
	c->view = (struct central_view){.central = central ? central : central_new(1),
	    .worker = worker,
	    .is_owner = !central};
	c->limit = central_limit_hold(&c->view, CONN_LIMIT_PROCESS, NULL);
}

void catalog_share_user(struct user *user)
{
	if (!user->limit)
		user->limit = central_limit_hold(
		    &user->catalog->view, CONN_LIMIT_USER, user->name);
}

void catalog_share_database(struct database *db)
{
	if (!db->limit)
		db->limit = central_limit_hold(
		    &db->catalog->view, CONN_LIMIT_DATABASE, db->name);
}

bool catalog_may_enter(struct central_limit *shared, int *count, int limit)
{
	++*count;
	/* also those on their way to another worker */
	int sum = atomic_fetch_add(&shared->clients, 1) + 1;
	return limit <= 0 || sum <= limit;
}

void catalog_leave(struct central_limit *shared, int *count)
{
	--*count;
	atomic_fetch_sub(&shared->clients, 1);
}

static void lose(struct catalog *c, enum conn_limit kind, const char *name)
{
	struct central_limit *limit = central_limit_hold(&c->view, kind, name);

	atomic_fetch_sub(&limit->clients, 1);
	central_limit_release(&c->view, &limit);
}

void catalog_lose_client(struct catalog *c, const char *database, const char *user)
{
	lose(c, CONN_LIMIT_DATABASE, database);
	lose(c, CONN_LIMIT_USER, user);
}
