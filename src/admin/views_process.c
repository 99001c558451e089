/*
 * Views of the process as a whole: version, state, settings, counts, memory, names.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/views.def"
#include "admin/views.h"
#include "cancel/peers.h"
#include "conf/settings.h"

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

void view_state(struct rows *rows)
{
	const struct catalog *catalog = rows->site->catalog;
	const struct loop_counts *counts = loop_counts(rows->site->loop);

	put_state(rows, "active", yes_no(!catalog->paused && !catalog->suspended));
	put_state(rows, "paused", yes_no(catalog->paused));
	put_state(rows, "suspended", yes_no(catalog->suspended));
	put_state(rows, "io_engine", net_engine_name(&rows->site->net));
	put_state_number(rows, "turns", counts->turns);
	put_state_number(rows, "longest_turn_us", counts->longest_us);
	put_state_number(rows, "recent_longest_turn_us", loop_counts_recent_us(counts));
}

/* auth_ldap_options may contain a password: it is cut off where that begins. */
static const char *without_password(const char *value, struct buf *shown)
{
	static const char key[] = "ldapbindpasswd";
	const char *at = value ? strcasestr(value, key) : NULL;

	if (!at)
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

void view_lists(struct rows *rows)
{
	const struct site *site = rows->site;
	const struct catalog *catalog = site->catalog;
	size_t servers = site->server_count;

	put_list(rows, "databases", map_count(catalog->databases));
	put_list(rows, "users", map_count(catalog->users));
	put_list(rows, "peers", catalog->config->peer_count);
	put_list(rows, "pools", catalog->pool_list.count);
	put_list(rows, "peer_pools", peers_count(site));
	put_list(rows, "free_clients", site->client_slab->free);
	put_list(rows, "used_clients", site_client_count(site));
	put_list(rows, "login_clients", site->login_clients.count);
	put_list(rows, "free_servers", site->server_slab->free);
	put_list(rows, "used_servers", servers);
	put_list(rows, "dns_names", site->dns ? dns_host_count(site->dns) : 0);
	put_list(rows, "dns_zones", site->dns ? dns_zone_count(site->dns) : 0);
	put_list(rows, "dns_queries", site->dns ? dns_pending_count(site->dns) : 0);
	put_list(rows, "dns_pending", 0);
	put_list(rows, "server_protocol_errors", site->protocol_errors);
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
