/*
 * Views of what exists: databases, pools, users, peers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/views.def"
#include "admin/views.h"
#include "conf/settings.h"
#include "pool/pool.h"

static const char *load_balance_shown(const struct database *db)
{
	const char *host = db->config->host;

	if (!host || !strchr(host, ','))
		return NULL;
	return load_balance_name(db->config->load_balance_hosts);
}

static void put_database(struct rows *rows, const struct database *db)
{
	int port =
	    db->is_admin ? site_settings(rows->site)->listen_port : db->config->port;

	row_begin(rows);
	DATABASES_COLUMNS(CELL)
	row_end(rows);
}

void view_databases(struct rows *rows)
{
	size_t count;
	struct database **databases =
	    catalog_sorted_databases(rows->site->catalog, &count);

	for (size_t i = 0; i < count; i++)
		if (!databases[i]->is_auto || databases[i]->idle_since_us == 0)
			put_database(rows, databases[i]);
	free(databases);
}

#define SEATS(state) (long long)pool->seats[SEAT_##state].count

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

enum { SIZE_TEXT = 16 };

/* Right-aligned in nine places, "" when not set: existing readers of this view know it
 * so. */
static const char *size_shown(int size, char out[SIZE_TEXT])
{
	if (size < 0)
		return "";
	snprintf(out, SIZE_TEXT, "%9d", size);
	return out;
}

static void put_user(struct rows *rows, const struct user *user)
{
	const struct catalog *catalog = rows->site->catalog;
	const struct user_config *config = user->config;
	char pool_size[SIZE_TEXT], reserve_pool_size[SIZE_TEXT];

	row_begin(rows);
	USERS_COLUMNS(CELL)
	row_end(rows);
}

void view_users(struct rows *rows)
{
	size_t count;
	struct user **users = catalog_sorted_users(rows->site->catalog, &count);

	for (size_t i = 0; i < count; i++)
		put_user(rows, users[i]);
	free(users);
}

void view_peers(struct rows *rows)
{
	const struct config *config = rows->site->catalog->config;

	for (size_t i = 0; i < config->peer_count; i++) {
		const struct peer_config *peer = &config->peers[i];
		int pool_size = peer->pool_size < 0 ? config->settings.default_pool_size
						    : peer->pool_size;
		row_begin(rows);
		PEERS_COLUMNS(CELL)
		row_end(rows);
	}
}

/* No cancel request is forwarded to peers, so no peer has ever been used. */
void view_peer_pools(struct rows *rows)
{
	(void)rows;
}
