/*
 * Views of databases and their hosts, pools, users and peers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cancel/peers.h"
#include "conf/settings.h"
#include "pool/host_group.h"
#include "pool/hosts_role.h"
#include "pool/pins.h"
#include "pool/pool.h"
#include "session/workers.h"
#include "views/views.def"
#include "views/views.h"

static const char *load_balance_shown(const struct database *db)
{
	const char *host = db->config->host;

	if (!host || !strchr(host, ','))
		return NULL;
	return setting_load_balance_name(db->config->load_balance_hosts);
}

/* The value that an entry gives to a setting; -1: none.  own may be NULL. */
#define OWN(own, name) \
	((own) && level_has(own, SETTING_INDEX_##name) ? (own)->name : -1)

static void put_database(struct rows *rows, const struct database *db)
{
	int port =
	    db->is_admin ? site_settings(rows->site)->listen_port : db->config->port;
	struct scope scope = scope_of_database(db);

	row_begin(rows);
	DATABASES_COLUMNS(CELL)
	row_end(rows);
}

/* Databases made from the template are only shown while somebody uses them or an
 * administrator has stopped them. */
static bool is_shown(const struct database *db)
{
	return !db->is_auto || db->idle_since_us == 0 || db->paused || db->disabled;
}

void view_databases_begin(struct site *site)
{
	list_walk_begin(&site->catalog->database_walk, &site->catalog->database_list);
}

struct database *view_databases_next(struct site *site)
{
	struct catalog *c = site->catalog;
	struct node *node = list_walk_next(&c->database_walk, &c->database_list);

	return node ? container_of(node, struct database, node) : NULL;
}

typedef void put_database_fn(struct rows *rows, const struct database *db);

static bool walk_databases(struct rows *rows, size_t most, put_database_fn *put)
{
	const struct database *db;

	for (; most > 0; most--) {
		db = view_databases_next(rows->site);
		if (!db)
			return false;
		if (is_shown(db))
			put(rows, db);
	}
	return true;
}

bool view_databases_part(struct rows *rows, size_t most)
{
	return walk_databases(rows, most, put_database);
}

static void put_databases(struct rows *rows, put_database_fn *put)
{
	size_t count;
	struct database **databases =
	    catalog_sorted_databases(rows->site->catalog, &count);

	for (size_t i = 0; i < count; i++)
		if (is_shown(databases[i]))
			put(rows, databases[i]);
	free(databases);
}

void view_databases(struct rows *rows)
{
	put_databases(rows, put_database);
}

static void put_hosts(struct rows *rows, const struct database *db)
{
	for (size_t n = 0; !db->is_admin && n < db->hosts.count; n++) {
		const struct host *host = db->hosts.list[n];
		struct host_verdict shown;

		hosts_show(db, host, &shown);
		bool is_judged = hosts_are_judged(db);
		const char *state = host_group_state_shown(&shown);
		const char *role = host_group_report_shown(&shown.value.report);
		const char *reason = host_group_reason_shown(&shown);
		uint32_t timeline = shown.value.report.timeline;
		uint64_t lag_us = UINT64_MAX, lag_bytes = UINT64_MAX;
		if (is_judged && hosts_has_lag_limit(db)) {
			lag_us = host->verdict.lag_us;
			lag_bytes = host->verdict.lag_bytes;
		}
		uint64_t left_us =
		    !is_judged && host->is_down && host->retry_us > rows->now_us
			? host->retry_us - rows->now_us
			: 0;
		long long retry_in = (long long)((left_us + 999999) / 1000000);

		row_begin(rows);
		HOSTS_COLUMNS(CELL)
		row_end(rows);
	}
}

void view_hosts(struct rows *rows)
{
	put_databases(rows, put_hosts);
}

bool view_hosts_part(struct rows *rows, size_t most)
{
	return walk_databases(rows, most, put_hosts);
}

#define SLOTS(state) (long long)pool->slots[SLOT_##state].count

static void put_pool(struct rows *rows, const struct pool *pool)
{
	uint64_t wait_us = pool_max_wait(pool, rows->now_us);

	row_begin(rows);
	POOLS_COLUMNS(CELL)
	row_end(rows);
}

void view_pools(struct rows *rows)
{
	size_t count;
	struct pool **pools = catalog_sorted_pools(rows->site->catalog, &count);

	for (size_t i = 0; i < count; i++)
		put_pool(rows, pools[i]);
	free(pools);
}

void view_pools_begin(struct site *site)
{
	list_walk_begin(&site->catalog->pool_walk, &site->catalog->pool_list);
}

struct pool *view_pools_next(struct site *site)
{
	struct node *node =
	    list_walk_next(&site->catalog->pool_walk, &site->catalog->pool_list);

	return node ? container_of(node, struct pool, node) : NULL;
}

bool view_pools_part(struct rows *rows, size_t most)
{
	const struct pool *pool;

	for (; most > 0; most--) {
		pool = view_pools_next(rows->site);
		if (!pool)
			return false;
		put_pool(rows, pool);
	}
	return true;
}

enum { SIZE_TEXT = 16 };

/* Right-aligned in nine columns, "" when not set, because programs that read this view
 * expect it. */
static const char *size_shown(int size, char out[SIZE_TEXT])
{
	if (size < 0)
		return "";
	snprintf(out, SIZE_TEXT, "%9d", size);
	return out;
}

static void put_user(void *ctx, const struct user *user)
{
	struct rows *rows = ctx;
	const struct level *own = user->config ? &user->config->own : NULL;
	char pool_size[SIZE_TEXT], reserve_pool_size[SIZE_TEXT];

	row_begin(rows);
	USERS_COLUMNS(CELL)
	row_end(rows);
}

void view_users(struct rows *rows)
{
	/* all sites have the same user list, so only one of them has rows for those of
	 * it whom nobody needs */
	catalog_each_user(
	    rows->site->catalog, workers_is_control(rows->site), put_user, rows);
}

void view_peers(struct rows *rows)
{
	const struct config *config = rows->site->catalog->config;

	for (size_t i = 0; i < config->peer_count; i++) {
		const struct peer_config *peer = &config->peers[i];
		int pool_size = peer->pool_size < 0
				    ? config->settings.global.default_pool_size
				    : peer->pool_size;
		row_begin(rows);
		PEERS_COLUMNS(CELL)
		row_end(rows);
	}
}

static void put_peer_pool(void *ctx, const struct peer_view *peer)
{
	struct rows *rows = ctx;

	row_begin(rows);
	PEER_POOLS_COLUMNS(CELL)
	row_end(rows);
}

void view_peer_pools(struct rows *rows)
{
	peers_walk(rows->site, put_peer_pool, rows);
}
