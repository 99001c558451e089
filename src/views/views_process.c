/*
 * Views of the whole process: version, state, settings, counts, memory, names.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/errors.h"
#include "base/time_us.h"
#include "broker/host_connection.h"
#include "cancel/peers.h"
#include "conf/settings.h"
#include "pool/pool.h"
#include "session/memory_limit.h"
#include "session/oauth_issuers.h"
#include "session/tls_setup.h"
#include "session/workers.h"
#include "views/views.def"
#include "views/views.h"

void view_version(struct rows *rows)
{
	char version[64];

	snprintf(version, sizeof(version), "PgBouncer %s", rows->site->version);
	row_begin(rows);
	VERSION_COLUMNS(CELL)
	row_end(rows);
}

static const char *yes_no(bool is_so)
{
	return is_so ? "yes" : "no";
}

static void put_state(struct rows *rows, const char *key, const char *value)
{
	row_begin(rows);
	STATE_COLUMNS(CELL)
	row_end(rows);
}

static void put_state_number(struct rows *rows, const char *key, uint64_t number)
{
	char value[24];

	snprintf(value, sizeof(value), "%" PRIu64, number);
	put_state(rows, key, value);
}

/* Of all sites; of the longest turns the longest. */
struct turns {
	uint64_t count, longest_us, recent_us, protocol_errors;
};

static void add_turns(struct site *site, void *ctx)
{
	const struct loop_counts *counts = loop_counts(site->loop);
	struct turns *turns = ctx;

	turns->count += counts->turns;
	turns->longest_us = time_later(turns->longest_us, counts->longest_us);
	turns->recent_us = time_later(turns->recent_us, loop_counts_recent_us(counts));
	turns->protocol_errors += site->protocol_errors;
}

void view_state(struct rows *rows)
{
	const struct catalog *catalog = rows->site->catalog;
	struct turns turns = {0};
	char why[128];

	rows->missed = workers_each(rows->site, add_turns, &turns);

	put_state(rows, "active", yes_no(!catalog->paused && !catalog->suspended));
	put_state(rows, "paused", yes_no(catalog->paused));
	put_state(rows, "suspended", yes_no(catalog->suspended));
	put_state(rows, "io_engine", net_engine_name(&rows->site->net));
	put_state_number(rows, "turns", turns.count);
	put_state_number(rows, "longest_turn_us", turns.longest_us);
	put_state_number(rows, "recent_longest_turn_us", turns.recent_us);
	put_state_number(rows, "uptime_seconds",
	    (loop_now(rows->site->loop) - loop_counts(rows->site->loop)->started_us) /
		1000000);
	put_state_number(
	    rows, "config_last_reload_successful", !rows->site->has_refused_reload);
	put_state_number(rows, "config_loaded_at", (uint64_t)rows->site->loaded_s);
	put_state_number(rows, "server_protocol_errors", turns.protocol_errors);
	put_state_number(rows, "log_lines_lost", log_lost_count(rows->site->log));
	put_state_number(rows, "memory_limit_reached", memory_limit_check(rows->site));
	put_state_number(
	    rows, "memory_limit_refused", memory_limit_refused(rows->site));
	put_state(rows, "log_error", log_file_error(rows->site->log, why, sizeof(why)));
}

/* Whether the key is at the beginning of the text, in any letter case and with quotes
 * anywhere in it. */
static bool begins_with(const char *text, const char *key)
{
	for (; *key; text++)
		if (*text != '"' && tolower((unsigned char)*text) != *key++)
			return false;
	return true;
}

/* Cuts auth_ldap_options before the first option that may contain a password. */
static const char *without_password(const char *value, struct buf *shown)
{
	static const char key[] = "ldapbindpasswd";
	const char *at = value;

	while (at && *at && !begins_with(at, key))
		at++;
	if (!at || !*at)
		return value;
	buf_clear(shown);
	buf_put(shown, value, (size_t)(at - value));
	buf_printf(shown, "%s=...", key);
	return buf_text(shown);
}

void view_config(struct rows *rows)
{
	const struct settings *settings = site_settings(rows->site);
	const struct setting *setting;
	struct buf shown;
	char out[64];

	buf_init(&shown, 0);
	for (size_t i = 0; (setting = setting_at(i)); i++) {
		const char *value = without_password(
		    setting_print(setting, settings, out, sizeof(out)), &shown);
		row_begin(rows);
		CONFIG_COLUMNS(CELL)
		row_end(rows);
	}
	buf_done(&shown);
}

static void put_list(struct rows *rows, const char *name, size_t items)
{
	row_begin(rows);
	LISTS_COLUMNS(CELL)
	row_end(rows);
}

/* Counts for SHOW LISTS.  An object known to several sites counts once, and connections
 * of the monitor of hosts do not: they are no client's, and in no other view. */
struct lists {
	size_t databases, users, peers, peer_pools;
	size_t free_clients, used_clients, login_clients, free_servers, used_servers;
	size_t dns_names, dns_zones, dns_queries;
	struct map *pools; /* by the names of database and user */
};

static size_t more(size_t a, size_t b)
{
	return a > b ? a : b;
}

static void add_pools(struct map *pools, const struct catalog *catalog)
{
	const struct pool *pool;
	struct buf key;

	buf_init_sure(&key);
	list_for (pool, &catalog->pool_list, node) {
		buf_clear(&key);
		buf_put(&key, pool->database->name, strlen(pool->database->name) + 1);
		buf_put_text(&key, pool->user->name);
		if (map_get(pools, key.bytes, key.len))
			continue;
		char *kept = mem_dup(key.bytes, key.len);
		map_put(pools, kept, key.len, kept);
	}
	buf_done(&key);
}

static void add_lists(struct site *site, void *ctx)
{
	const struct catalog *catalog = site->catalog;
	const struct watched_host *host;
	struct lists *l = ctx;

	l->databases = more(l->databases, map_count(catalog->databases));
	l->users = more(l->users, catalog_user_count(catalog));
	l->peers = more(l->peers, catalog->config->peer_count);
	l->peer_pools = more(l->peer_pools, peers_count(site));
	l->free_clients += site->client_slab->free;
	l->used_clients += site_client_count(site);
	l->login_clients += site->login_clients.count;
	l->free_servers += site->server_slab->free;
	l->used_servers += site->server_count;
	if (site->watched_hosts)
		list_for (host, site->watched_hosts, node)
			l->used_servers -= host->server != NULL;
	l->dns_names = more(l->dns_names, site->dns ? dns_host_count(site->dns) : 0);
	l->dns_zones = more(l->dns_zones, site->dns ? dns_zone_count(site->dns) : 0);
	l->dns_queries += site->dns ? dns_pending_count(site->dns) : 0;
	if (l->pools)
		add_pools(l->pools, catalog);
}

void view_lists(struct rows *rows)
{
	/* a sink has the rows of POOLS, so it needs no count of them */
	struct lists l = {.pools = rows->sink ? NULL : map_new()};
	char *key;

	rows->missed = workers_each(rows->site, add_lists, &l);
	put_list(rows, "databases", l.databases);
	put_list(rows, "users", l.users);
	put_list(rows, "peers", l.peers);
	if (l.pools)
		put_list(rows, "pools", map_count(l.pools));
	put_list(rows, "peer_pools", l.peer_pools);
	put_list(rows, "free_clients", l.free_clients);
	put_list(rows, "used_clients", l.used_clients);
	put_list(rows, "login_clients", l.login_clients);
	put_list(rows, "free_servers", l.free_servers);
	put_list(rows, "used_servers", l.used_servers);
	put_list(rows, "dns_names", l.dns_names);
	put_list(rows, "dns_zones", l.dns_zones);
	put_list(rows, "dns_queries", l.dns_queries);
	put_list(rows, "dns_pending", 0);
	size_t at = 0;
	if (!l.pools)
		return;
	while ((key = map_next(l.pools, &at)))
		mem_free(key);
	map_free(&l.pools);
}

static void put_error(struct rows *rows, enum error_id id, uint64_t count)
{
	char name[64];
	size_t len = 0;

	for (const char *p = error_name(id); *p && len < sizeof(name) - 1; p++)
		name[len++] = (char)tolower((unsigned char)*p);
	name[len] = '\0';
	row_begin(rows);
	ERRORS_COLUMNS(CELL)
	row_end(rows);
}

void view_errors(struct rows *rows)
{
	for (int id = 0; id <= ERROR_COUNT; id++)
		put_error(rows, (enum error_id)id, rows->site->errors_told[id]);
}

static const char *utc(int64_t second, char out[32])
{
	time_t at = (time_t)second;
	struct tm tm;

	strftime(out, 32, "%Y-%m-%d %H:%M:%S", gmtime_r(&at, &tm));
	return out;
}

void view_warnings(struct rows *rows)
{
	struct log_warning warnings[LOG_WARNINGS];
	size_t count = log_last_warnings(rows->site->log, warnings);
	char when[32];

	for (size_t i = 0; i < count; i++) {
		const struct log_warning *w = &warnings[i];
		row_begin(rows);
		WARNINGS_COLUMNS(CELL)
		row_end(rows);
	}
}

static void put_certificate(
    void *ctx, const char *setting, const char *path, const struct tls_dates *dates)
{
	struct rows *rows = ctx;
	int64_t now_s = (int64_t)(rows->wall_us / 1000000);
	char from[32], until[32];

	row_begin(rows);
	CERTIFICATES_COLUMNS(CELL)
	row_end(rows);
}

void view_certificates(struct rows *rows)
{
	tls_setup_each_dates(rows->site->tls, put_certificate, rows);
}

static void put_issuer(const struct oauth_issuer_state *issuer, void *ctx)
{
	struct rows *rows = ctx;
	long long age_s = issuer->key_count
			      ? (long long)(rows->now_us - issuer->fetched_us) / 1000000
			      : 0;

	row_begin(rows);
	ISSUERS_COLUMNS(CELL)
	row_end(rows);
}

void view_issuers(struct rows *rows)
{
	oauth_issuers_each(rows->site, put_issuer, rows);
}

static void put_mem(struct rows *rows, const char *name, size_t size, size_t used,
    size_t free_count, size_t bytes)
{
	row_begin(rows);
	MEM_COLUMNS(CELL)
	row_end(rows);
}

void view_mem(struct rows *rows)
{
	const struct site *site = rows->site;
	const struct slab *slab;
	size_t used, free_count, bytes;

	list_for (slab, &site->mem.slabs, node)
		put_mem(rows, slab->name, slab->size, slab->used, slab->free,
		    slab_bytes(slab));
	if (!site->net.blocks)
		return;
	block_pool_usage(site->net.blocks, &used, &free_count, &bytes);
	put_mem(rows, "iobuf_cache", sizeof(struct block) + BLOCK_SIZE, used,
	    free_count, bytes);
	if (!site->net.ring)
		return;
	size_t size = net_ring_usage(&site->net, &used, &free_count, &bytes);
	put_mem(rows, "ring_iobuf_cache", size, used, free_count, bytes);
}

static void put_host(void *ctx, const struct dns_host_view *host)
{
	struct rows *rows = ctx;
	struct buf text;
	char one[SOCK_PORT_TEXT];

	buf_init(&text, 0);
	for (size_t i = 0; i < host->addr_count; i++) {
		if (i > 0)
			buf_put_u8(&text, ',');
		buf_put_text(&text, sock_addr_text(&host->addrs[i], 0, one));
	}
	const char *addrs = buf_text(&text);
	row_begin(rows);
	DNS_HOSTS_COLUMNS(CELL)
	row_end(rows);
	buf_done(&text);
}

void view_dns_hosts(struct rows *rows)
{
	if (rows->site->dns)
		dns_walk(rows->site->dns, put_host, rows);
}

static void put_zone(void *ctx, const struct dns_zone_view *zone)
{
	struct rows *rows = ctx;

	row_begin(rows);
	DNS_ZONES_COLUMNS(CELL)
	row_end(rows);
}

void view_dns_zones(struct rows *rows)
{
	if (rows->site->dns)
		dns_walk_zones(rows->site->dns, put_zone, rows);
}

/* ---- SHOW WORKERS ---- */

void view_workers(struct rows *rows)
{
	const struct site *site = rows->site;
	const struct loop_counts *counts = loop_counts(site->loop);
	const struct transfer_counts *servers = &site->transfer_counts;
	char worker[16] = "0";

	if (site->worker && workers_is_control(site))
		snprintf(worker, sizeof(worker), "control");
	else if (site->worker)
		snprintf(worker, sizeof(worker), "%u", site->worker->index);
	row_begin(rows);
	WORKERS_COLUMNS(CELL)
	row_end(rows);
}
