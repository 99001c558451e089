/*
 * Asks all sites which databases need the monitor of hosts, and as whom to log in.
 */
#include "broker/host_survey.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "pool/hosts_role.h"
#include "pool/pool_effective.h"
#include "pool/scopes.h"
#include "session/workers.h"

struct watched_host *host_survey_find(
    const struct host_monitor *m, const char *name, int port)
{
	struct watched_host *w;

	list_for (w, &m->hosts, node) {
		bool is_same = name && w->watch.name ? strcmp(name, w->watch.name) == 0
						     : name == w->watch.name;
		if (is_same && w->watch.port == port)
			return w;
	}
	return NULL;
}

static struct watched_host *watched_host(
    struct host_monitor *m, const char *name, int port)
{
	struct watched_host *w = host_survey_find(m, name, port);

	if (w)
		return w;
	w = mem_zero(sizeof(*w));
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
	host_watch_renew(&w->watch);
}

/* A pool of the database that has clients, or lacks servers for min_pool_size, or
 * during a SWITCHOVER any that has logged in; *is_busy: some client has a server, or
 * waits for one. */
static const struct pool *pool_in_use(const struct database *db, bool *is_busy)
{
	const struct pool *pool, *found = NULL;

	list_for (pool, &db->pools, db_node) {
		bool has_clients =
		    !list_is_empty(&pool->clients) || !list_is_empty(&pool->waiting);
		if (has_clients ||
		    (!found && (pool_is_undersized(pool) ||
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

static void survey_database(struct host_monitor *m, struct database *db)
{
	bool is_busy = false, is_new;
	const struct pool *pool = pool_in_use(db, &is_busy);
	struct database *own;
	struct watched_database *d;

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
	d->is_busy |= is_busy || db->is_switching;
	d->wants_verdicts |= !hosts_are_judged(db);
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

static void survey_site(struct site *site, void *ctx)
{
	struct database *db;

	list_for (db, &site->catalog->database_list, node) {
		if (hosts_are_watched(db) || db->hosts.has_leavers)
			survey_database(ctx, db);
	}
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
		bool is_needed = false;
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
	list_for (w, &m->hosts, node)
		w->policy.is_wanted = w->has_servers = false;
	(void)workers_each(m->site, survey_site, m);
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
}
