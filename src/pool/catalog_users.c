#include "pool/catalog_users.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pool/catalog_parts.h"

/* ---- secrets ---- */

/* secret NULL: the user has none any more. */
static void set_secret(struct user *user, const struct secret *secret)
{
	user->has_secret = secret != NULL;
	if (secret ? secret_is_equal(&user->secret, secret)
		   : user->secret.kind == SECRET_NONE)
		return;
	secret_done(&user->secret);
	secret_init(&user->secret, secret ? secret->text : "");
	scram_cache_done(&user->scram_cache);
	if (user->adhoc) {
		scram_verifier_done(user->adhoc);
		mem_free(user->adhoc);
		user->adhoc = NULL;
		user->has_adhoc_keys = false;
	}
}

/* Gives the user what the list in force says. */
static void review(struct user *user)
{
	struct catalog *c = user->catalog;

	if (!c->list)
		return;
	set_secret(user, userlist_find(c->list, user->name));
	if (!user->is_listed && userlist_knows(c->list, user->name)) {
		user->is_listed = true;
		c->unlisted_count--;
	}
}

void catalog_begin_users(struct catalog *c, struct userlist *users)
{
	struct userlist *old = c->list;

	c->list = userlist_ref(users);
	userlist_unref(&old);
	c->is_reviewing_users = true;
	c->users_reviewed = 0;
}

bool catalog_adopt_users(struct catalog *c, size_t most)
{
	for (; c->is_reviewing_users && most; most--) {
		struct user *user = map_next(c->users, &c->users_reviewed);
		if (user)
			review(user);
		else
			c->is_reviewing_users = false;
	}
	return c->is_reviewing_users;
}

static void user_forget(struct user *user)
{
	if (user->remembered) {
		secret_done(&user->remembered->secret);
		scram_cache_done(&user->remembered->cache);
	}
	mem_free(user->remembered);
	user->remembered = NULL;
}

void user_remember(struct user *user, const char *password)
{
	struct secret *secret;

	if (user->remembered && strcmp(user->remembered->secret.text, password) == 0)
		return;
	user_forget(user);
	user->remembered = mem_zero(sizeof(*user->remembered));
	secret = &user->remembered->secret;
	/* a plain password, even if it looks like a hash */
	secret->kind = SECRET_PLAIN;
	secret->text = mem_strdup(password);
}

/* ---- life ---- */

static struct user *user_new(struct catalog *c, const char *name)
{
	struct user *user = slab_get(c->user_slab);

	user->name = mem_strdup(name);
	user->catalog = c;
	secret_init(&user->secret, "");
	list_init(&user->pools);
	list_init(&user->resting);
	if (c->config)
		user->config = config_user(c->config, name);
	c->unlisted_count++;
	review(user);
	map_put_str(c->users, user->name, user);
	return user;
}

void user_free(struct user *user)
{
	struct catalog *c = user->catalog;

	central_limit_release(&c->view, &user->limit);
	secret_done(&user->secret);
	user_forget(user);
	scram_cache_done(&user->scram_cache);
	if (user->adhoc) {
		scram_verifier_done(user->adhoc);
		mem_free(user->adhoc);
	}
	mem_free(user->name);
	slab_put(c->user_slab, user);
}

struct user *catalog_find_user(struct catalog *c, const char *name)
{
	struct user *user = map_get_str(c->users, name);

	if (!user && c->list && userlist_knows(c->list, name))
		user = user_new(c, name);
	return user;
}

struct user *catalog_user(struct catalog *c, const char *name)
{
	struct user *user = catalog_find_user(c, name);

	return user ? user : user_new(c, name);
}

/* ---- clients ---- */

bool user_may_enter(struct user *user, bool exempt)
{
	int limit = scope_max_user_client_connections(scope_of_user(user));

	catalog_share_user(user);
	return catalog_may_enter(user->limit, &user->client_count, exempt ? 0 : limit);
}

void user_leave(struct user *user)
{
	assert(user->client_count > 0);
	catalog_leave(user->limit, &user->client_count);
}

void user_carry(struct user *user)
{
	assert(user->client_count > 0);
	user->client_count--;
}

void user_receive(struct user *user)
{
	catalog_share_user(user);
	user->client_count++;
}

/* ---- all of them ---- */

size_t catalog_user_count(const struct catalog *c)
{
	return c->unlisted_count + (c->list ? userlist_known_count(c->list) : 0);
}

struct named {
	const char *name;
	const struct user *user; /* NULL: nobody has looked for it yet */
};

static int compare_names(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Fills all, which has room for every user; returns the count. */
static size_t name_users(const struct catalog *c, bool has_all, struct named *all)
{
	const struct user *user;
	const char *name;
	size_t at = 0, n = 0;

	while ((user = map_next(c->users, &at)))
		all[n++] = (struct named){user->name, user};
	if (!c->list || !has_all)
		return n;
	for (at = 0; (name = userlist_next_known(c->list, &at));)
		if (!map_get_str(c->users, name))
			all[n++] = (struct named){name, NULL};
	return n;
}

void catalog_each_user(struct catalog *c, bool has_all, catalog_user_fn *fn, void *ctx)
{
	size_t most = map_count(c->users) + catalog_user_count(c);
	struct named *all = mem_alloc((most + 1) * sizeof(*all));
	size_t count = name_users(c, has_all, all);

	qsort(all, count, sizeof(*all), compare_names);
	for (size_t i = 0; i < count; i++) {
		const struct named *named = &all[i];
		struct user unused = {
		    .name = (char *)(uintptr_t)named->name, .catalog = c};
		if (named->user) {
			fn(ctx, named->user);
			continue;
		}
		unused.config = c->config ? config_user(c->config, named->name) : NULL;
		fn(ctx, &unused);
	}
	mem_free(all);
}
