/*
 * The records of hosts: which hosts entries have, the results of attempts to reach
 * them, and their connections.  hosts_balance.c chooses among them.
 */
#include "pool/hosts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "pool/hosts_role.h"
#include "pool/pool_effective.h"
#include "pool/scopes.h"
#include "pool/seats.h"

/* How often at most a doubt about a role is checked. */
enum { DOUBT_US = 1000000 };

/* How often the same text about a host is logged during a SWITCHOVER. */
enum { NEWS_US = 10000000 };

/* The pause after a failure where the monitor of hosts looks after them. */
enum { JUDGED_PAUSE_US = 1000000 };

/* How often at most a site asks the monitor to look. */
enum { HINT_US = 50000 };

/* The pause after failures grows up to this many times server_login_retry. */
enum { PAUSE_GROWTH_MAX = 16 };

static void host_unref(struct host *host)
{
	assert(host->refs);
	if (--host->refs)
		return;
	mem_free(host->name);
	mem_free(host);
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Returns the record of a host that is not listed yet, with a reference, or NULL.  The
 * caller lists it, so that a host that occurs twice in an entry has two records. */
static struct host *take_known(
    const struct hosts *hosts, const struct host_config *config)
{
	for (size_t i = 0; i < hosts->count; i++) {
		struct host *host = hosts->list[i];
		if (host->is_listed || host->port != config->port ||
		    !is_same_text(host->name, config->host))
			continue;
		host->refs++;
		return host;
	}
	return NULL;
}

static struct host *host_new(const struct host_config *config)
{
	struct host *host = mem_zero(sizeof(*host));

	host->name = config->host ? mem_strdup(config->host) : NULL;
	host->port = config->port;
	host->refs = 1;
	return host;
}

bool hosts_adopt(struct hosts *hosts, const struct database_config *config)
{
	struct host **list = mem_alloc(config->host_count * sizeof(struct host *));
	struct host *elected = hosts->elected;
	bool is_other = hosts->count != config->host_count;
	bool is_judged = hosts->is_judged && !is_other;

	for (size_t i = 0; i < hosts->count; i++)
		hosts->list[i]->is_listed = false;
	for (size_t i = 0; i < config->host_count; i++) {
		list[i] = take_known(hosts, &config->hosts[i]);
		if (!list[i])
			list[i] = host_new(&config->hosts[i]);
		list[i]->is_listed = true;
		is_other = is_other || list[i]->weight != config->hosts[i].weight;
		list[i]->weight = config->hosts[i].weight;
	}
	for (size_t i = 0; i < config->host_count; i++)
		is_judged = is_judged && list[i]->refs > 1;
	/* the weights may have changed, so that counting for the balance begins
	 * again */
	for (size_t i = 0; is_other && i < config->host_count; i++)
		list[i]->turns = 0;
	if (elected && elected->is_listed)
		elected->refs++;
	else
		elected = NULL;
	hosts_done(hosts);
	hosts->list = list;
	hosts->count = config->host_count;
	hosts->elected = elected;
	hosts->is_judged = is_judged;
	return is_other;
}

void hosts_done(struct hosts *hosts)
{
	for (size_t i = 0; i < hosts->count; i++)
		host_unref(hosts->list[i]);
	if (hosts->elected)
		host_unref(hosts->elected);
	hosts->elected = NULL;
	mem_free(hosts->list);
	hosts->list = NULL;
	hosts->count = 0;
}

/* ---- what a pool has at a host ---- */

static void share_free(struct pool *pool, struct share *share)
{
	assert(list_is_empty(&share->idle) && !share->seat_count);
	list_remove(&pool->shares, &share->node);
	host_unref(share->host);
	mem_free(share);
}

void hosts_forget_shares(struct pool *pool, bool all)
{
	struct share *share, *after;

	list_for_safe (share, after, &pool->shares, node) {
		if (all || (!share->seat_count && !share->host->is_listed))
			share_free(pool, share);
	}
}

struct share *hosts_share(struct pool *pool, struct host *host)
{
	struct share *share;

	list_for (share, &pool->shares, node) {
		if (share->host == host)
			return share;
	}
	share = mem_zero(sizeof(*share));
	share->host = host;
	host->refs++;
	list_init(&share->idle);
	list_push_back(&pool->shares, &share->node);
	return share;
}

/* ---- attempts ---- */

/* Sets when a role that is known now must be checked again. */
static void set_look(struct share *share, const struct pool *pool, uint64_t now_us)
{
	uint64_t period_us = scope_role_check_period(scope_of_database(pool->database));
	uint64_t at_us = now_us + (period_us ? period_us : pool_login_retry(pool));

	share->host->is_doubtful = false;
	share->host->look_us = share->look_us = at_us;
}

void hosts_dial(
    struct pool *pool, struct seat *seat, struct host *host, uint64_t now_us)
{
	assert(!seat->share);
	seat->share = hosts_share(pool, host);
	seat->share->seat_count++;
	host->connections++;
	if (!seat->is_probe)
		return;
	/* no other pool needs to check meanwhile */
	set_look(seat->share, pool, now_us);
	if (host->state != REACH_UP)
		host->state = REACH_PROBING;
	pool->probe_count++;
}

/* Raises the host's count to that of the other host that is furthest behind. */
static void set_level(struct host *host, const struct pool *pool)
{
	const struct hosts *hosts = &pool->database->hosts;
	const struct host *least = NULL;

	for (size_t i = 0; i < hosts->count; i++) {
		const struct host *h = hosts->list[i];
		if (h == host || !hosts_may_serve(pool, h))
			continue;
		if (!least || h->turns * (uint64_t)least->weight <
				  least->turns * (uint64_t)h->weight)
			least = h;
	}
	if (!least)
		return;
	uint64_t level =
	    least->turns * (uint64_t)host->weight / (uint64_t)least->weight;
	if (level > host->turns)
		host->turns = level;
}

/* Pools that try this host too make ordinary connections now, and pools whose attempt
 * has failed may try again. */
static void tell_pools(struct database *db, const struct host *host)
{
	struct pool *pool;
	struct seat *seat;

	list_for (pool, &db->pools, db_node) {
		if (!pool->lacks_host && list_is_empty(&pool->seats[SEAT_LOGIN]))
			continue;
		list_for (seat, &pool->seats[SEAT_LOGIN], node) {
			if (!seat->is_probe || seat->share->host != host)
				continue;
			seat->is_probe = false;
			pool->probe_count--;
		}
		pool_kick(pool);
	}
}

/* ---- roles ---- */

void hosts_review(struct seat *seat)
{
	struct pool *pool = seat->pool;

	if (seat->share && !seat->is_replication &&
	    !hosts_is_fit(pool, seat->share->host))
		seat->is_dirty = seat->is_misplaced = pool->has_dirty = true;
}

static void mark_misplaced(struct pool *pool)
{
	struct seat *seat;

	for (int state = SEAT_LOGIN + 1; state < SEAT_STATE_COUNT; state++) {
		list_for (seat, &pool->seats[state], node)
			hosts_review(seat);
	}
}

/* Roles have changed: checks which connections may still be used. */
static void follow_roles(struct database *db)
{
	struct pool *pool;

	if (!hosts_has_roles(db) && !db->hosts.elected)
		return;
	list_for (pool, &db->pools, db_node) {
		mark_misplaced(pool);
		pool_kick(pool);
	}
}

static bool is_same_report(const struct host_report *a, const struct host_report *b)
{
	return a->role == b->role && a->is_read_only == b->is_read_only;
}

void hosts_learn(struct seat *seat, const struct host_report *report, uint64_t now_us)
{
	struct share *share = seat->share;

	if (!share)
		return;
	struct host *host = share->host;
	bool is_new = !share->has_told || !is_same_report(&host->report, report) ||
		      share->is_read_only != report->is_read_only;
	if (hosts_are_judged(seat->pool->database) &&
	    !is_same_report(&host->report, report))
		hosts_hint(seat->pool->database, host, report, now_us);
	host->report = *report;
	host->looked_us = now_us;
	share->is_read_only = report->is_read_only;
	share->has_told = true;
	set_look(share, seat->pool, now_us);
	if (!is_new)
		return;
	if (host->state == REACH_UP)
		set_level(host, seat->pool);
	follow_roles(seat->pool->database);
}

void hosts_hear(struct database *db, struct host *host,
    const struct host_report *report, uint64_t looked_us)
{
	if (looked_us <= host->looked_us)
		return;
	host->report = *report;
	host->looked_us = host->look_us = looked_us;
	if (host->state != REACH_UP) {
		host->state = REACH_UP;
		host->pause_us = host->retry_us = 0;
		tell_pools(db, host);
	}
	follow_roles(db);
}

void hosts_doubt(const struct seat *seat, uint64_t now_us)
{
	struct host *host = seat->share ? seat->share->host : NULL;

	if (!host || host->report.is_kept_posted || host->is_doubtful ||
	    !hosts_has_roles(seat->pool->database) ||
	    now_us - host->looked_us < DOUBT_US)
		return;
	hosts_hint(seat->pool->database, host, NULL, now_us);
	host->is_doubtful = true;
	host->look_us = now_us;
	pool_kick(seat->pool);
}

struct host *hosts_find(const struct hosts *hosts, const char *name, int port)
{
	for (size_t i = 0; i < hosts->count; i++)
		if (hosts->list[i]->port == port &&
		    is_same_text(hosts->list[i]->name, name))
			return hosts->list[i];
	return NULL;
}

const struct host *hosts_primary(const struct database *db)
{
	const struct hosts *hosts = &db->hosts;

	for (size_t i = 0; hosts_are_judged(db) && i < hosts->count; i++)
		if (hosts->list[i]->verdict.is_primary)
			return hosts->list[i];
	return NULL;
}

void hosts_elect(struct database *db, struct host *host)
{
	struct host *before = db->hosts.elected;

	if (host)
		host->refs++;
	db->hosts.elected = host;
	if (before)
		host_unref(before);
	follow_roles(db);
	if (host)
		hosts_hint(db, host, NULL, db->catalog->seen_us);
}

/* ---- answers ---- */

void hosts_answered(struct seat *seat)
{
	struct host *host = seat->share ? seat->share->host : NULL;

	if (!host || host->state == REACH_UP)
		return;
	set_level(host, seat->pool);
	host->state = REACH_UP;
	host->pause_us = host->retry_us = 0;
	tell_pools(seat->pool->database, host);
	follow_roles(seat->pool->database);
}

/* Kicks pools that wait because no host serves, or because their login to a slow host
 * takes long. */
static void tell_waiting_pools(const struct database *db)
{
	struct pool *pool;

	list_for (pool, &db->pools, db_node) {
		if (pool->lacks_host || !list_is_empty(&pool->seats[SEAT_LOGIN]))
			pool_kick(pool);
	}
}

void hosts_suspect(struct seat *seat)
{
	struct host *host = seat->share->host;

	assert(seat->state == SEAT_LOGIN && !seat->is_probe);
	seat->is_probe = true;
	seat->pool->probe_count++;
	if (host->state != REACH_UP)
		return;
	host->state = REACH_PROBING;
	tell_waiting_pools(seat->pool->database);
}

void hosts_failed(
    struct seat *seat, const char *text, uint64_t retry_us, uint64_t now_us)
{
	struct host *host = seat->share ? seat->share->host : NULL;

	if (!host)
		return;
	bool is_switching = seat->pool->database->is_switching;
	host->failures++;
	host->looked_us = now_us;
	hosts_hint(seat->pool->database, host, NULL, now_us);
	host->report = (struct host_report){.role = HOST_ROLE_UNKNOWN};
	snprintf(host->last_error, sizeof(host->last_error), "%s", text);
	/* attempts that began before the host was known to be down tell nothing new */
	if (host->state != REACH_UP && !seat->is_probe)
		return;
	uint64_t most = retry_us * PAUSE_GROWTH_MAX;
	/* the monitor looks every second, so that nobody else has to hold back */
	if (hosts_are_judged(seat->pool->database))
		most = retry_us =
		    retry_us < JUDGED_PAUSE_US ? retry_us : JUDGED_PAUSE_US;
	bool is_first = host->state == REACH_UP || !host->pause_us;
	host->pause_us = is_first || is_switching ? retry_us : 2 * host->pause_us;
	if (host->pause_us > most)
		host->pause_us = most;
	host->retry_us = now_us + host->pause_us;
	host->state = REACH_DOWN;
	tell_waiting_pools(seat->pool->database);
}

bool hosts_is_news(const struct seat *seat, const char *text, uint64_t now_us)
{
	struct host *host = seat->share ? seat->share->host : NULL;
	char known[sizeof(host->logged)];

	if (!host || !seat->pool->database->is_switching)
		return true;
	snprintf(known, sizeof(known), "%s", text);
	if (strcmp(host->logged, known) == 0 && now_us - host->logged_us < NEWS_US)
		return false;
	memcpy(host->logged, known, sizeof(known));
	host->logged_us = now_us;
	return true;
}

/* ---- the monitor of hosts ---- */

void hosts_hint(const struct database *db, const struct host *host,
    const struct host_report *report, uint64_t now_us)
{
	struct catalog *c = db->catalog;
	bool is_soon = !report && now_us < c->hinted_us + HINT_US;

	if (!c->events || !c->events->hint || !hosts_are_watched(db) || is_soon)
		return;
	c->hinted_us = now_us;
	c->events->hint(c->events_ctx, host, report);
}

bool hosts_avoid(struct seat *seat, uint64_t now_us)
{
	struct pool *pool = seat->pool;
	uint64_t period_us = scope_role_check_period(scope_of_database(pool->database));

	if (!hosts_are_watched(pool->database))
		return false;
	hosts_hint(pool->database, seat->share->host, NULL, now_us);
	if (!hosts_has_other(pool, seat->share->host))
		return false;
	pool->avoids_hosts = true;
	seat->share->avoided_until_us =
	    now_us + (period_us ? period_us : pool_login_retry(pool));
	return true;
}

bool hosts_is_lost(const struct seat *seat)
{
	const struct host *host = seat->share ? seat->share->host : NULL;

	return host && hosts_are_judged(seat->pool->database) &&
	       host->verdict.value.state == HOST_HANGS &&
	       hosts_has_other(seat->pool, host);
}

/* What the verdict says about whether the host can be reached. */
static void follow_reach(struct database *db, struct host *host, uint64_t now_us)
{
	const struct host_value *v = &host->verdict.value;
	bool was_up = host->state == REACH_UP;

	switch (v->state) {
	case HOST_NOT_TRIED:
		return;
	case HOST_UP:
		host->state = REACH_UP;
		host->pause_us = host->retry_us = 0;
		if (v->report.role != HOST_ROLE_UNKNOWN)
			host->report = v->report;
		if (!was_up)
			tell_pools(db, host);
		return;
	case HOST_REFUSES:
		/* it is tried when no other host serves, so that clients are told */
		host->retry_us = now_us + JUDGED_PAUSE_US;
		break;
	case HOST_HANGS:
	case HOST_DOWN:
		host->retry_us = UINT64_MAX;
		break;
	}
	host->state = REACH_DOWN;
	host->report = (struct host_report){.role = HOST_ROLE_UNKNOWN};
	snprintf(host->last_error, sizeof(host->last_error), "%s", v->reason);
}

/* Where no other host serves, one that refused the login a moment ago is tried again.
 */
static void forgive(struct pool *pool)
{
	struct share *share;

	if (!pool->avoids_hosts || hosts_has_server(pool))
		return;
	pool->avoids_hosts = false;
	list_for (share, &pool->shares, node)
		share->avoided_until_us = 0;
}

/* An administrator's choice ends when another primary is in force. */
static void follow_choice(struct database *db)
{
	struct hosts *hosts = &db->hosts;

	for (size_t i = 0; i < hosts->count && hosts->elected; i++) {
		if (hosts->list[i] == hosts->elected ||
		    !hosts->list[i]->verdict.is_in_force)
			continue;
		host_unref(hosts->elected);
		hosts->elected = NULL;
	}
}

void hosts_follow(
    struct database *db, const struct host_verdict *list, size_t count, uint64_t now_us)
{
	struct hosts *hosts = &db->hosts;
	struct pool *pool;

	/* the entry has others by now, about which it tells soon */
	if (count != hosts->count)
		return;
	for (size_t i = 0; i < count; i++) {
		hosts->list[i]->verdict = list[i];
		hosts->list[i]->looked_us = now_us;
	}
	hosts->is_judged = true;
	for (size_t i = 0; i < count; i++)
		follow_reach(db, hosts->list[i], now_us);
	follow_choice(db);
	list_for (pool, &db->pools, db_node) {
		mark_misplaced(pool);
		forgive(pool);
		pool->has_lost_hosts = true;
		pool_kick(pool);
	}
}

/* ---- seats ---- */

void hosts_seat_comes(struct seat *seat, bool to_front)
{
	struct share *share = seat->share;

	if (!share)
		return;
	share->host->logins += seat->state == SEAT_LOGIN;
	share->host->resting += seat->state == SEAT_IDLE || seat->state == SEAT_USED;
	if (seat->state != SEAT_IDLE)
		return;
	if (to_front)
		list_push_front(&share->idle, &seat->share_node);
	else
		list_push_back(&share->idle, &seat->share_node);
}

static void end_probe(struct seat *seat)
{
	struct host *host = seat->share->host;

	if (!seat->is_probe)
		return;
	seat->is_probe = false;
	seat->pool->probe_count--;
	if (host->state != REACH_PROBING)
		return;
	/* the attempt ended without a result, so the next one may follow at once */
	host->state = REACH_DOWN;
	tell_waiting_pools(seat->pool->database);
}

void hosts_seat_goes(struct seat *seat)
{
	struct share *share = seat->share;

	if (!share)
		return;
	share->host->logins -= seat->state == SEAT_LOGIN;
	share->host->resting -= seat->state == SEAT_IDLE || seat->state == SEAT_USED;
	if (seat->state == SEAT_LOGIN)
		end_probe(seat);
	if (seat->state == SEAT_IDLE)
		list_remove(&share->idle, &seat->share_node);
}

void hosts_seat_ends(struct seat *seat)
{
	struct share *share = seat->share;

	if (!share)
		return;
	seat->share = NULL;
	share->host->connections--;
	share->seat_count--;
	if (!share->seat_count && !share->host->is_listed)
		share_free(seat->pool, share);
}
