#include "pool/catalog.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "conf/entry.h"
#include "conf/setting_row.h"
#include "pool/activity.h"
#include "pool/catalog_parts.h"
#include "pool/conn_limits.h"
#include "pool/credentials.h"
#include "pool/exchange.h"
#include "pool/idle.h"
#include "pool/pool_effective.h"
#include "pool/slots.h"

/* ---- until somebody listens ---- */

static void ignore_pool(void *ctx, struct pool *pool)
{
	(void)ctx, (void)pool;
}

static void ignore_kill(void *ctx, struct pool *pool, const char *reason)
{
	(void)ctx, (void)pool, (void)reason;
}

static const struct catalog_events nobody_listens = {
    .schedule = ignore_pool, .kill = ignore_kill, .freed = ignore_pool};

/* ---- the catalog itself ---- */

struct catalog *catalog_new(struct mem *mem)
{
	struct catalog *c = mem_zero(sizeof(*c));

	c->mem = mem;
	c->user_slab = slab_new(mem, "user_cache", sizeof(struct user));
	c->database_slab = slab_new(mem, "db_cache", sizeof(struct database));
	c->pool_slab = slab_new(mem, "pool_cache", sizeof(struct pool));
	c->users = map_new();
	c->databases = map_new();
	c->pools = map_new();
	list_init(&c->pool_list);
	list_init(&c->database_list);
	list_init(&c->idle_pools);
	list_init(&c->counted);
	list_init(&c->idle_databases);
	c->events = &nobody_listens;
	catalog_share(c, NULL, 0);
	return c;
}

static void database_free(struct database *db)
{
	struct catalog *c = db->catalog;

	if (node_is_linked(&db->idle_node))
		list_remove(&c->idle_databases, &db->idle_node);
	secret_done(&db->forced_secret);
	scram_cache_done(&db->forced_cache);
	hosts_done(&db->hosts);
	mem_free(db->hosts.addresses);
	credentials_done(db);
	/* at other sites it may still be in use */
	if (db->is_auto && db->kept && db->limit &&
	    !central_is_last(&c->view, &db->limit->name))
		central_leave(&c->view, &db->limit->name, &db->kept);
	if (db->kept) {
		kept_follow(db->kept, c->snapshot_count);
		kept_add(
		    &c->gone, &db->kept->stats, &db->kept->history, c->snapshot_count);
	}
	kept_free(&db->kept);
	central_limit_release(&c->view, &db->limit);
	if (db->arena)
		arena_free(&db->arena);
	if (db->held)
		config_unref(&db->held);
	mem_free(db->name);
	slab_put(c->database_slab, db);
}

static void database_free_if_unused(struct database *db)
{
	if (db->is_gone && !db->holder_count && list_is_empty(&db->pools))
		database_free(db);
}

/* Sums must not shrink when a pool is freed. */
static void keep_counts(struct pool *pool)
{
	static const struct stats nothing = {0};
	struct database *db = pool->database;
	struct catalog *c = db->catalog;
	struct central_name *name = &pool->part.whole->name;
	struct kept *durations = NULL;

	if (memcmp(&pool->stats, &nothing, sizeof(nothing)) != 0)
		kept_add(&db->kept, &pool->stats, &pool->history, c->snapshot_count);
	if (central_is_last(&c->view, name))
		return;
	kept_add_latency(&durations, &pool->latency);
	if (durations)
		central_leave(&c->view, name, &durations);
}

void pool_free(struct pool *pool)
{
	struct database *db = pool->database;
	struct catalog *c = db->catalog;

	c->events->freed(c->events_ctx, pool);
	conn_limits_forget(pool);
	/* a killed pool is no longer in the map; another one may be there under its
	 * key */
	if (!pool->is_killed)
		map_del(c->pools, &pool->database, 2 * sizeof(void *));
	if (node_is_linked(&pool->idle_node))
		list_remove(&c->idle_pools, &pool->idle_node);
	if (node_is_linked(&pool->counted_node))
		list_remove(&c->counted, &pool->counted_node);
	list_walk_leave(&c->pool_walk, &c->pool_list, &pool->node);
	list_remove(&c->pool_list, &pool->node);
	list_remove(&db->pools, &pool->db_node);
	list_remove(&pool->user->pools, &pool->user_node);
	hosts_forget_pool(pool, true);
	failure_forget(&pool->failure);
	mem_free(pool->lookup_end.failure);
	mem_wipe(&pool->credentials.login_keys, sizeof(pool->credentials.login_keys));
	credential_forget_for_pool(pool);
	exchange_part(pool);
	keep_counts(pool);
	central_pool_release(&c->view, &pool->part.whole);
	latency_done(&pool->latency);
	slab_put(c->pool_slab, pool);
	database_free_if_unused(db);
}

void catalog_free(struct catalog **cp)
{
	struct catalog *c = *cp;
	struct database *db;
	struct user *user;
	size_t at = 0;
	struct pool *pool, *after;

	activity_end(c);
	list_for_safe (pool, after, &c->pool_list, node) {
		assert(pool_is_empty(pool));
		pool_free(pool);
	}
	while ((db = map_next(c->databases, &at)))
		database_free(db);
	for (at = 0; (user = map_next(c->users, &at));)
		user_free(user);
	kept_free(&c->gone);
	mem_free(c->by_entry);
	map_free(&c->pools);
	map_free(&c->databases);
	map_free(&c->users);
	userlist_unref(&c->list);
	if (c->template_config)
		config_unref(&c->template_config);
	if (c->config)
		config_unref(&c->config);
	slab_free(&c->pool_slab);
	slab_free(&c->database_slab);
	slab_free(&c->user_slab);
	central_limit_release(&c->view, &c->limit);
	mem_free(c->view.told);
	if (c->view.is_owner)
		central_free(&c->view.central);
	mem_free(c);
	*cp = NULL;
}

void catalog_note(
    catalog_note_fn *note, void *note_ctx, unsigned level, const char *fmt, ...)
{
	char *text;
	va_list ap;

	if (!note)
		return;
	va_start(ap, fmt);
	int len = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (len < 0)
		return;
	note(note_ctx, level, text);
	free(text);
}

/* ---- databases ---- */

struct database *database_new(struct catalog *c, const char *name)
{
	struct database *db = slab_get(c->database_slab);

	db->name = mem_strdup(name);
	db->catalog = c;
	db->service = c->service;
	secret_init(&db->forced_secret, "");
	list_init(&db->pools);
	list_init(&db->resting);
	map_put_str(c->databases, db->name, db);
	list_push_back(&c->database_list, &db->node);
	return db;
}

static void database_unlist(struct database *db)
{
	struct catalog *c = db->catalog;

	map_del_str(c->databases, db->name);
	list_walk_leave(&c->database_walk, &c->database_list, &db->node);
	list_remove(&c->database_list, &db->node);
}

void database_set_config(struct database *db, const struct database_config *config)
{
	struct pool *pool;
	struct secret secret;

	db->config = config;
	if (hosts_adopt(db))
		hosts_begin_at(&db->hosts, db->catalog->view.worker);
	list_for (pool, &db->pools, db_node) {
		pool->balance.wanted = 0;
		hosts_forget_pool(pool, false);
	}
	if (config->user)
		db->forced_user = catalog_user(db->catalog, config->user);
	if (text_or_null(config->own.auth_user))
		catalog_user(db->catalog, config->own.auth_user);
	/* a forced user that stays without being in the entry keeps its password as
	 * well */
	if (config->user || config->password || !db->forced_user) {
		secret_init(&secret, config->password ? config->password : "");
		if (secret_is_equal(&secret, &db->forced_secret)) {
			secret_done(&secret);
			return;
		}
		secret_done(&db->forced_secret);
		scram_cache_done(&db->forced_cache);
		db->forced_secret = secret;
	}
}

const struct database_config *catalog_read_template(
    const struct catalog *c, const char *name, struct arena *arena)
{
	struct database_config *config = arena_alloc(arena, sizeof(*config));
	struct err err;

	if (entry_parse_connstr(config, name, c->template->connstr, arena, &err) < 0)
		return NULL;
	return config;
}

int database_from_template(struct database *db)
{
	struct arena *arena = arena_new();
	const struct database_config *config =
	    catalog_read_template(db->catalog, db->name, arena);

	if (!config) {
		arena_free(&arena);
		return -1;
	}
	struct arena *old = db->arena;
	database_set_config(db, config);
	db->arena = arena;
	db->is_auto = true;
	if (old)
		arena_free(&old);
	return 0;
}

struct database *catalog_find_database(struct catalog *c, const char *name)
{
	return map_get_str(c->databases, name);
}

bool catalog_may_make(const struct catalog *c, const char *name)
{
	return c->template && strlen(name) <= DATABASE_NAME_MAX;
}

struct database *catalog_database(struct catalog *c, const char *name, bool *is_new)
{
	struct database *db = catalog_find_database(c, name);

	*is_new = false;
	if (db || !catalog_may_make(c, name))
		return db;
	db = database_new(c, name);
	if (database_from_template(db) < 0) {
		database_unlist(db);
		database_free(db);
		return NULL;
	}
	/* idle from the start, because the client that asked for it may fail to log
	 * in */
	idle_note_database(db);
	/* that of the control thread, for the monitor of hosts: what workers have
	 * counted must not be left to it */
	if (c->view.serves_nobody)
		return db;
	catalog_share_database(db);
	*is_new = central_claim_news(&c->view, &db->limit->name);
	return db;
}

struct database *catalog_add_admin(struct catalog *c, const struct service *service)
{
	struct database *db = database_new(c, "pgbouncer");
	struct arena *arena = arena_new();
	struct database_config *config = arena_alloc(arena, sizeof(*config));
	struct host_config *host = arena_alloc(arena, sizeof(*host));

	host->weight = 1;
	*config = (struct database_config){
	    .name = db->name,
	    .connstr = "",
	    .dbname = db->name,
	    .hosts = host,
	    .host_count = 1,
	    .port = c->config ? c->config->settings.listen_port : 0,
	    .user = db->name,
	};
	/* the console's pool has fixed limits, independent of the settings */
	config->own.default_pool_size = 2;
	level_set_given(&config->own, SETTING_INDEX_default_pool_size, true);
	level_set_given(&config->own, SETTING_INDEX_min_pool_size, true);
	level_set_given(&config->own, SETTING_INDEX_reserve_pool_size, true);
	config->own.pool_mode = POOL_MODE_STATEMENT;
	level_set_given(&config->own, SETTING_INDEX_pool_mode, true);
	db->arena = arena;
	db->service = service;
	db->is_admin = true;
	database_set_config(db, config);
	catalog_pool(db, db->forced_user);
	return db;
}

void catalog_set_service(struct catalog *c, const struct service *service)
{
	struct database *db;
	size_t at = 0;

	c->service = service;
	while ((db = map_next(c->databases, &at))) {
		if (!db->is_admin)
			db->service = service;
	}
}

/* ---- pools ---- */

struct pool_key {
	struct database *database;
	struct user *user;
};
_Static_assert(offsetof(struct pool, user) - offsetof(struct pool, database) ==
		   offsetof(struct pool_key, user),
    "a pool holds its own key");

static struct user *pool_user_of(const struct database *db, struct user *login_user)
{
	return db->forced_user ? db->forced_user : login_user;
}

struct pool *catalog_find_pool(struct database *db, struct user *login_user)
{
	return catalog_find_pool_as(db, pool_user_of(db, login_user));
}

struct pool *catalog_find_pool_as(struct database *db, struct user *pool_user)
{
	struct pool_key key = {db, pool_user};
	struct node *first = list_first(&db->pools);
	struct pool *pool = first ? container_of(first, struct pool, db_node) : NULL;

	/* most databases have one pool */
	if (pool && pool->user == pool_user && !pool->is_killed)
		return pool;
	return map_get(db->catalog->pools, &key, sizeof(key));
}

struct pool *catalog_pool(struct database *db, struct user *login_user)
{
	return catalog_pool_as(db, pool_user_of(db, login_user));
}

struct pool *catalog_pool_as(struct database *db, struct user *pool_user)
{
	struct catalog *c = db->catalog;
	struct pool *pool = catalog_find_pool_as(db, pool_user);

	if (pool)
		return pool;
	pool = slab_get(c->pool_slab);
	pool->database = db;
	pool->user = pool_user;
	for (int state = 0; state < SLOT_STATE_COUNT; state++)
		list_init(&pool->slots[state]);
	list_init(&pool->clients);
	list_init(&pool->waiting);
	list_init(&pool->param_waiters);
	list_init(&pool->replicas);
	list_init(&pool->balance.pool_hosts);
	list_init(&pool->cancels_waiting);
	list_init(&pool->cancels_active);
	list_push_back(&c->pool_list, &pool->node);
	list_push_back(&db->pools, &pool->db_node);
	list_push_back(&pool_user->pools, &pool->user_node);
	/* a client may log in while its database is being removed; this pool refuses
	 * it */
	pool->is_killed = db->is_gone;
	pool_review_mode(pool);
	catalog_share_user(pool_user);
	catalog_share_database(db);
	exchange_join(pool);
	if (!pool->is_killed)
		map_put(c->pools, &pool->database, sizeof(struct pool_key), pool);
	idle_note_pool(pool);
	return pool;
}

void pool_free_if_unused(struct pool *pool)
{
	idle_note_pool(pool);
	if (pool->is_killed && pool_is_empty(pool))
		pool_free(pool);
}

static void kill_pools_of(struct database *db, const char *reason)
{
	struct pool *pool, *after;

	list_for_safe (pool, after, &db->pools, db_node) {
		struct catalog *c = pool->database->catalog;
		if (pool->is_killed)
			continue;
		map_del(c->pools, &pool->database, sizeof(struct pool_key));
		conn_limits_forget(pool);
		exchange_part(pool);
		pool->is_killed = true;
		if (pool_is_empty(pool))
			pool_free(pool);
		else
			c->events->kill(c->events_ctx, pool, reason);
	}
}

void database_drop(struct database *db, struct config *keep, const char *reason)
{
	database_unlist(db);
	db->held = keep ? config_ref(keep) : NULL;
	/* held so that it is not freed before all its pools are killed */
	database_hold(db);
	db->is_gone = true;
	kill_pools_of(db, reason);
	database_release(db);
}

/* ---- clients ---- */

void database_hold(struct database *db)
{
	db->holder_count++;
	idle_note_database(db);
}

void database_release(struct database *db)
{
	assert(db->holder_count > 0);
	db->holder_count--;
	idle_note_database(db);
	database_free_if_unused(db);
}

bool database_enter(struct database *db, bool exempt)
{
	int limit = scope_max_db_client_connections(scope_of_database(db));

	db->was_used = true;
	catalog_share_database(db);
	return catalog_may_enter(db->limit, &db->client_count, exempt ? 0 : limit);
}

void database_leave(struct database *db)
{
	assert(db->client_count > 0);
	catalog_leave(db->limit, &db->client_count);
}

void database_carry(struct database *db)
{
	assert(db->client_count > 0);
	db->client_count--;
}

void database_receive(struct database *db)
{
	db->was_used = true;
	catalog_share_database(db);
	db->client_count++;
}

/* ---- something is done to all ---- */

void database_mark_dirty(struct database *db)
{
	struct pool *pool;

	db->catalog->renewals++;
	list_for (pool, &db->pools, db_node)
		pool_mark_dirty(pool);
}

void database_spread(struct database *db, const char *addresses)
{
	struct pool *pool;
	struct slot *slot;

	mem_free(db->hosts.addresses);
	db->hosts.addresses = *addresses ? mem_strdup(addresses) : NULL;
	database_set_config(db, db->config);
	list_for (pool, &db->pools, db_node)
		for (int state = SLOT_NONE + 1; state < SLOT_STATE_COUNT; state++)
			list_for (slot, &pool->slots[state], node)
				if (slot->pool_host &&
				    !slot->pool_host->host->is_listed)
					pool_mark_slot_dirty(slot, DIRTY_OLD);
	catalog_schedule_all(db->catalog, db);
}

void catalog_mark_dirty(struct catalog *c, struct database *db)
{
	struct pool *pool;

	/* the database may be the one in which auth_query ran for other databases */
	credentials_forget_all(c);
	if (db) {
		database_mark_dirty(db);
		return;
	}
	c->renewals++;
	list_for (pool, &c->pool_list, node) {
		if (!pool->database->is_admin)
			pool_mark_dirty(pool);
	}
}

/* With min_pool_size the pool of a forced user must exist before the first client. */
static void make_forced_pool(struct database *db)
{
	if (!db->is_admin && db->forced_user &&
	    scope_min_pool_size(scope_of_login(db, db->forced_user)) > 0)
		catalog_pool(db, NULL);
}

/* Skips unused pools, because there may be thousands of them. */
static void schedule_unless_unused(struct pool *pool)
{
	if (!node_is_linked(&pool->idle_node) || pool_is_undersized(pool))
		pool_schedule(pool);
}

void catalog_schedule_all(struct catalog *c, struct database *db)
{
	struct pool *pool;
	size_t at = 0;

	if (db) {
		make_forced_pool(db);
		list_for (pool, &db->pools, db_node)
			schedule_unless_unused(pool);
		return;
	}
	while ((db = map_next(c->databases, &at)))
		make_forced_pool(db);
	list_for (pool, &c->pool_list, node)
		schedule_unless_unused(pool);
}

void catalog_kill(struct catalog *c, struct database *db, const char *reason)
{
	size_t at = 0;

	if (db) {
		db->paused = true;
		db->is_switching = false;
		kill_pools_of(db, reason);
		return;
	}
	while ((db = map_next(c->databases, &at))) {
		if (!db->is_admin && !list_is_empty(&db->pools))
			catalog_kill(c, db, reason);
	}
}

/* ---- sorted walks ---- */

static int compare_databases(const void *a, const void *b)
{
	const struct database *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static int compare_pools(const void *a, const void *b)
{
	const struct pool *const *x = a, *const *y = b;
	int order = strcmp((*x)->database->name, (*y)->database->name);

	return order ? order : strcmp((*x)->user->name, (*y)->user->name);
}

struct database **catalog_sorted_databases(const struct catalog *c, size_t *count)
{
	return (struct database **)map_sorted(c->databases, count, compare_databases);
}

struct pool **catalog_sorted_pools(const struct catalog *c, size_t *count)
{
	struct pool **pools =
	    mem_alloc((c->pool_list.count + 1) * sizeof(struct pool *));
	struct pool *pool;
	size_t n = 0;

	list_for (pool, &c->pool_list, node)
		pools[n++] = pool;
	if (n)
		qsort(pools, n, sizeof(struct pool *), compare_pools);
	*count = n;
	return pools;
}
