#include "broker/host_survey.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "pool/hosts_role.h"
#include "pool/pool_effective.h"
#include "pool/scopes.h"
#include "session/workers.h"

static void put_key(struct buf *key, const char *name, int port)
{
	buf_printf(key, name ? "%d %s" : "%d", port, name ? name : "");
}

struct watched_host *host_survey_find(
    const struct host_monitor *m, const char *name, int port)
{
	struct watched_host *w;
	struct buf key;

	buf_init_sure(&key);
	put_key(&key, name, port);
	w = map_get(m->by_key, key.bytes, key.len);
	buf_done(&key);
	return w;
}

static struct watched_host *watched_host(
    struct host_monitor *m, const char *name, int port)
{
	struct watched_host *w = host_survey_find(m, name, port);
	struct buf key;

	if (w)
		return w;
	w = mem_zero(sizeof(*w));
	buf_init_sure(&key);
	put_key(&key, name, port);
	w->key = mem_strdup(buf_text(&key));
	map_put_str(m->by_key, w->key, w);
	buf_done(&key);
	w->monitor = m;
	w->site = m->site;
	w->go_on = m->go_on;
	host_watch_init(&w->watch, name, port);
	secret_init(&w->secret, NULL);
	list_push_back(&m->hosts, &w->node);
	return w;
}

static struct watched_database *watched_database(
    struct host_monitor *m, const char *name)
{
	struct watched_database *d;

	list_for (d, &m->databases, node) {
		if (strcmp(d->name, name) == 0)
			return d;
	}
	d = mem_zero(sizeof(*d));
	d->name = mem_strdup(name);
	d->wake_us = UINT64_MAX;
	host_group_init(&d->group);
	list_push_back(&m->databases, &d->node);
	return d;
}

bool host_survey_has(const struct watched_database *d, const struct watched_host *host)
{
	for (size_t i = 0; i < d->host_count; i++)
		if (d->hosts[i] == host)
			return true;
	return false;
}

/* Takes over the hosts and rules of the entry. */
static void adopt_group(
    struct host_monitor *m, struct watched_database *d, const struct database *db)
{
	const struct hosts *hosts = &db->hosts;
	struct scope scope = scope_of_database(db);
	const struct host_group_rules rules = {
	    .target = (enum target_attrs)scope_target_session_attrs(scope),
	    .max_lag_us = scope_max_replica_lag(scope),
	    .max_lag_bytes = (uint64_t)scope_max_replica_lag_bytes(scope),
	};
	struct host_watch **watches =
	    mem_alloc(hosts->count * sizeof(struct host_watch *));

	struct watched_host **before = d->hosts;
	size_t before_count = d->host_count;

	d->hosts =
	    mem_alloc((hosts->count + before_count) * sizeof(struct watched_host *));
	d->host_count = hosts->count;
	for (size_t i = 0; i < hosts->count; i++) {
		d->hosts[i] =
		    watched_host(m, hosts->list[i]->name, hosts->list[i]->port);
		watches[i] = &d->hosts[i]->watch;
	}
	for (size_t i = 0; i < before_count; i++)
		if (!host_survey_has(d, before[i]))
			d->hosts[d->host_count++] = before[i];
	mem_free(before);
	host_group_adopt(&d->group, &rules, watches, hosts->count);
	for (size_t i = 0; i < hosts->count && !d->group.is_settled; i++) {
		struct host *host = hosts->list[i];
		if (host->was_primary)
			host_group_restore(&d->group, watches[i], host->was_timeline);
		host->was_primary = false;
	}
	mem_free(watches);
}

/* As whom the monitor logs in. */
struct login {
	const char *user;
	const struct secret *secret;
	const struct scram_keys *keys; /* that a client has proven; NULL: none */
	bool is_own;                   /* role_check_user: no user of a pool */
};

/* db: of the control site. */
static struct login login_of(const struct database *db, const struct pool *pool)
{
	const char *name = text_or_null(scope_role_check_user(scope_of_database(db)));

	if (name)
		return (struct login){.user = name,
		    .secret = &catalog_user(db->catalog, name)->secret,
		    .is_own = true};
	return (struct login){.user = pool->user->name,
	    .secret = pool_server_secret(pool),
	    .keys = pool->credentials.has_login_keys ? &pool->credentials.login_keys
						     : NULL};
}

static bool is_same_login(
    const struct watched_host *w, const struct database *db, const struct login *login)
{
	if (w->database != db || !w->user || strcmp(w->user, login->user) != 0 ||
	    w->is_own_user != login->is_own ||
	    !secret_is_equal(&w->secret, login->secret))
		return false;
	return w->has_keys == (login->keys != NULL) &&
	       (!w->has_keys || memcmp(&w->keys, login->keys, sizeof(w->keys)) == 0);
}

static void forget_login(struct watched_host *w)
{
	if (w->database)
		database_release(w->database);
	w->database = NULL;
	mem_free(w->user);
	w->user = NULL;
	secret_done(&w->secret);
	secret_init(&w->secret, NULL);
	mem_wipe(&w->keys, sizeof(w->keys));
	scram_cache_done(&w->cache);
}

/* Does another database need the login that the host has? */
static bool is_login_needed(const struct watched_host *w, const struct database *db)
{
	const struct watched_database *d;

	list_for (d, &w->monitor->databases, node) {
		if (w->database && w->database != db &&
		    strcmp(d->name, w->database->name) == 0)
			return d->was_wanted;
	}
	return false;
}

static void set_login(
    struct watched_host *w, struct database *db, const struct login *login)
{
	forget_login(w);
	database_hold(db);
	w->database = db;
	w->user = mem_strdup(login->user);
	w->is_own_user = login->is_own;
	secret_done(&w->secret);
	secret_init(&w->secret,
	    login->secret->kind == SECRET_NONE ? NULL : login->secret->text);
	w->has_keys = login->keys != NULL;
	if (w->has_keys)
		w->keys = *login->keys;
	w->is_short = false;
}

/* From now on the monitor logs in so at this host.  db: of the control site. */
static void take_login(
    struct watched_host *w, struct database *db, const struct login *login)
{
	if (is_same_login(w, db, login) || is_login_needed(w, db))
		return;
	/* a login that works stays as it is while its database is wanted */
	if (w->server && w->watch.phase >= WATCH_RESTING && w->database == db &&
	    !w->is_own_user && !login->is_own)
		return;
	host_connection_close(w);
	set_login(w, db, login);
	host_watch_renew(&w->watch);
}

/* A pool of the database that has clients, or else servers, which the next client gets
 * at once, or is filled to min_pool_size without clients, or during a SWITCHOVER any
 * that has logged in; *is_busy: some client has a server, or waits for one. */
static const struct pool *pool_in_use(const struct database *db, bool *is_busy)
{
	const struct pool *pool, *found = NULL;

	list_for (pool, &db->pools, db_node) {
		bool has_clients =
		    !list_is_empty(&pool->clients) || !list_is_empty(&pool->waiting);
		bool is_filled =
		    pool->user == db->forced_user && pool_is_undersized(pool);
		if (has_clients ||
		    (!found && (pool_connected_count(pool) || is_filled ||
				   (db->is_switching && pool->has_logged_in))))
			found = pool;
		*is_busy |= !list_is_empty(&pool->waiting) ||
			    pool->slots[SLOT_ACTIVE].count > 0;
	}
	return found;
}

/* Notes which hosts have servers, if it matters: some of the database have left its
 * entry, at this site or at another one. */
static void note_servers(struct host_monitor *m, struct database *db)
{
	const struct pool_host *pool_host;
	const struct pool *pool;
	struct watched_host *w;

	db->hosts.has_leavers = false;
	list_for (pool, &db->pools, db_node) {
		list_for (pool_host, &pool->balance.pool_hosts, node) {
			w = pool_host->slot_count
				? host_survey_find(
				      m, pool_host->host->name, pool_host->host->port)
				: NULL;
			if (w)
				w->has_servers = true;
			db->hosts.has_leavers |= !pool_host->host->is_listed;
		}
	}
}

/* Whether servers of the pool have sent something since the last survey. */
static bool note_traffic(struct pool *pool)
{
	uint64_t bytes = pool->stats.bytes_sent - pool->balance.own_bytes;
	bool is_heard = bytes != pool->balance.seen_bytes;

	pool->balance.seen_bytes = bytes;
	return is_heard;
}

static void survey_database(struct host_monitor *m, struct database *db)
{
	bool is_busy = false, is_new;
	const struct pool *pool = pool_in_use(db, &is_busy);
	struct database *own;
	struct watched_database *d;
	struct pool *each;

	if (!pool && !db->is_switching)
		return;
	d = watched_database(m, db->name);
	if (!d->is_wanted) {
		own = catalog_database(m->site->catalog, db->name, &is_new);
		if (!own)
			return;
		adopt_group(m, d, own);
		d->is_wanted = true;
	}
	if (db->hosts.has_leavers || d->host_count > d->group.count)
		note_servers(m, db);
	host_group_begin(&d->group, loop_now(m->site->loop));
	/* short queries are over between two surveys */
	list_for (each, &db->pools, db_node)
		is_busy |= note_traffic(each);
	d->is_busy |= is_busy || db->is_switching;
	/* what it was told before it rested may be so still, and then nothing changes
	 */
	d->wants_verdicts |= !hosts_are_judged(db) || db->hosts.is_stale;
	own = catalog_find_database(m->site->catalog, db->name);
	d->wants_addresses |= own && own->hosts.count != db->hosts.count;
	if (!pool || !own)
		return;
	const struct login login = login_of(own, pool);
	for (size_t i = 0; i < d->group.count; i++)
		if (!d->hosts[i]->policy.is_wanted) {
			take_login(d->hosts[i], own, &login);
			/* only one login for each survey */
			d->hosts[i]->policy.is_wanted = true;
		}
}

static void lower(uint64_t *us, uint64_t other_us)
{
	if (other_us && (!*us || other_us < *us))
		*us = other_us;
}

/* A database with one host and no role.  Nobody is asked where nothing is connected, or
 * may be: an administrator who has paused it has stopped the server. */
static void survey_lone(struct host_monitor *m, struct database *db)
{
	const struct catalog *c = db->catalog;
	const struct host *host = db->hosts.list[0];
	struct scope scope = scope_of_database(db);
	bool is_idle = !db->client_count && !db->server_count, ignored = false;
	const struct pool *used;
	struct database *own;
	struct pool *pool;

	if (is_idle || !scope_host_hung_timeout(scope) || db->paused || c->paused ||
	    c->suspended)
		return;
	struct watched_host *w = watched_host(m, host->name, host->port);
	struct lone_use *use = &w->lone;
	use->is_seen = true;
	lower(&use->hung_us, scope_host_hung_timeout(scope));
	lower(&use->period_us, scope_role_check_period(scope));
	use->has_clients |= db->client_count > 0;
	use->wants_value |= host->verdict.value.state != w->watch.value.state;
	list_for (pool, &db->pools, db_node) {
		use->is_heard |= note_traffic(pool);
		use->is_busy |= pool->slots[SLOT_ACTIVE].count > 0;
		for (int state = SLOT_LOGIN + 1; state < SLOT_STATE_COUNT; state++)
			use->has_servers |= !list_is_empty(&pool->slots[state]);
	}
	used = use->has_login || w->watch.phase != WATCH_APART
		   ? NULL
		   : pool_in_use(db, &ignored);
	own = used ? catalog_database(m->site->catalog, db->name, &ignored) : NULL;
	if (!own)
		return;
	const struct login login = login_of(own, used);
	if (!is_same_login(w, own, &login))
		set_login(w, own, &login);
	use->has_login = true;
}

static void survey_site(struct site *site, void *ctx)
{
	struct database *db;

	list_for (db, &site->catalog->database_list, node) {
		if (hosts_are_watched(db) || db->hosts.has_leavers)
			survey_database(ctx, db);
		else if (!db->is_admin)
			survey_lone(ctx, db);
	}
}

bool host_survey_is_lone(const struct watched_host *w)
{
	const struct host_watch *watch = &w->watch;

	/* one that has failed is looked after until it is up again, though it has no
	 * servers */
	return w->lone.has_clients && (w->lone.has_servers || watch->is_hinted ||
					  watch->phase != WATCH_APART ||
					  (watch->value.state != HOST_NOT_TRIED &&
					      watch->value.state != HOST_UP));
}

/* Has a lone host given a sign of life since the last survey, or lost all servers? */
static void note_life(struct watched_host *w, bool is_whole)
{
	struct lone_use *use = &w->lone;
	bool is_new = w->watch.value.state == HOST_NOT_TRIED && use->has_servers;

	/* nobody knows what a worker has that does not answer now */
	if (!is_whole && w->lone_before.is_seen) {
		bool is_heard = use->is_heard;
		*use = w->lone_before;
		use->is_heard = is_heard;
	}

	/* policy: the monitor asks it for other databases */
	if (!use->has_clients || w->policy.is_wanted)
		return;
	if (use->is_heard || is_new) {
		host_connection_close(w);
		host_watch_alive(&w->watch, loop_now(w->site->loop));
	}
	if (w->lone_before.has_servers && !use->has_servers)
		host_watch_hint(&w->watch);
}

/* How servers log in may have changed: connections that work are opened anew, as those
 * of pools are. */
static void renew(struct host_monitor *m)
{
	struct watched_host *w;

	if (m->renewals == m->site->catalog->renewals)
		return;
	m->renewals = m->site->catalog->renewals;
	list_for (w, &m->hosts, node) {
		if (w->watch.phase < WATCH_RESTING)
			continue;
		host_connection_close(w);
		host_watch_renew(&w->watch);
	}
}

static void host_free(struct watched_host *w)
{
	host_connection_close(w);
	forget_login(w);
	secret_done(&w->secret);
	host_watch_done(&w->watch);
	map_del_str(w->monitor->by_key, w->key);
	mem_free(w->key);
	list_remove(&w->monitor->hosts, &w->node);
	mem_free(w);
}

static void database_free(struct host_monitor *m, struct watched_database *d)
{
	list_remove(&m->databases, &d->node);
	host_group_done(&d->group);
	mem_free(d->hosts);
	mem_free(d->name);
	mem_free(d);
}

/* Frees databases that no longer exist, or have one host now, and hosts that no
 * database has. */
static void forget_gone(struct host_monitor *m)
{
	struct watched_database *d, *next_database;
	struct watched_host *w, *next_host;

	list_for_safe (d, next_database, &m->databases, node) {
		const struct database *db =
		    catalog_find_database(m->site->catalog, d->name);
		if (!d->is_wanted && !(db && hosts_are_watched(db)))
			database_free(m, d);
	}
	list_for_safe (w, next_host, &m->hosts, node) {
		bool is_needed = w->lone.is_seen;
		list_for (d, &m->databases, node)
			is_needed |= host_survey_has(d, w);
		if (!is_needed)
			host_free(w);
	}
}

void host_survey_run(struct host_monitor *m)
{
	struct watched_database *d;
	struct watched_host *w;

	list_for (d, &m->databases, node) {
		d->was_wanted = d->is_wanted;
		d->is_wanted = d->is_busy = false;
	}
	list_for (w, &m->hosts, node) {
		w->policy.is_wanted = w->has_servers = false;
		w->lone_before = w->lone;
		w->lone = (struct lone_use){.is_seen = false};
	}
	bool is_whole = workers_each(m->site, survey_site, m) == 0;
	list_for (w, &m->hosts, node)
		note_life(w, is_whole);
}

void host_survey_tidy(struct host_monitor *m)
{
	struct watched_database *d;
	struct watched_host *w;

	list_for (d, &m->databases, node) {
		size_t kept = d->group.count;
		for (size_t i = kept; i < d->host_count; i++)
			if (d->hosts[i]->has_servers)
				d->hosts[kept++] = d->hosts[i];
		d->host_count = kept;
	}
	list_for (w, &m->hosts, node)
		if (!w->policy.is_wanted)
			forget_login(w);
	renew(m);
	forget_gone(m);
}

void host_survey_free(struct host_monitor *m)
{
	struct node *first;

	while ((first = list_first(&m->databases)))
		database_free(m, container_of(first, struct watched_database, node));
	while ((first = list_first(&m->hosts)))
		host_free(container_of(first, struct watched_host, node));
	map_free(&m->by_key);
}
