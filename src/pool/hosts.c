#include "pool/hosts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/time_us.h"
#include "pool/host_group.h"
#include "pool/hosts_role.h"
#include "pool/pool_effective.h"
#include "pool/scopes.h"
#include "pool/slots.h"

/* How often at most a doubt about a role is checked. */
enum { DOUBT_US = 1000000 };

/* How often at most a site asks the monitor to look. */
enum { HINT_US = 50000 };

static void host_unref(struct host *host)
{
	assert(host->refs);
	if (--host->refs)
		return;
	central_host_release(host->view, &host->shared);
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

static struct host *host_new(
    const struct database *db, const struct host_config *config)
{
	struct host *host = mem_zero(sizeof(*host));
	struct buf name;

	host->name = config->host ? mem_strdup(config->host) : NULL;
	host->port = config->port;
	host->refs = 1;
	host->view = &db->catalog->view;
	if (host->view->central->worker_count == 1)
		return host;
	buf_init_sure(&name);
	host_put_name(host, &name);
	host->shared = central_host_hold(host->view, db->name, buf_text(&name));
	buf_done(&name);
	return host;
}

static void count_for_all(struct host *host, int change)
{
	if (host->shared)
		atomic_fetch_add(&host->shared->servers, change);
}

const char *hosts_addresses(const struct hosts *hosts, const char *name, size_t *len)
{
	size_t name_len = name ? strlen(name) : 0;

	for (const char *at = hosts->addresses; name && at && *at;) {
		size_t size = strcspn(at, " ");
		if (strncmp(at, name, name_len) == 0 && at[name_len] == '=') {
			*len = size - name_len - 1;
			return at + name_len + 1;
		}
		at += size + (at[size] == ' ');
	}
	return NULL;
}

/* The hosts of the entry, a name with several addresses as one for each; in arena. */
static const struct host_config *list_places(
    const struct database *db, size_t *count, struct arena *arena)
{
	const struct database_config *config = db->config;
	size_t most = config->host_count, len;
	struct host_config *places;

	for (const char *at = db->hosts.addresses; *at; at++)
		most += *at == ',';
	places = arena_alloc(arena, most * sizeof(*places));
	*count = 0;
	for (size_t i = 0; i < config->host_count; i++) {
		struct host_config place = config->hosts[i];
		const char *name = place.host;
		const char *at = hosts_addresses(&db->hosts, name, &len);
		if (!at) {
			places[(*count)++] = place;
			continue;
		}
		for (const char *end = at + len; at < end;) {
			size_t size = strcspn(at, ", ");
			char *text = arena_alloc(arena, strlen(name) + size + 2);
			sprintf(text, "%s/%.*s", name, (int)size, at);
			place.host = text;
			places[(*count)++] = place;
			at += size + 1;
		}
	}
	return places;
}

bool hosts_adopt(struct database *db)
{
	struct hosts *hosts = &db->hosts;
	const struct host_config *places = db->config->hosts;
	size_t count = db->config->host_count;
	struct arena *arena = NULL;
	if (hosts->addresses && (count > 1 || hosts_has_roles(db))) {
		arena = arena_new();
		places = list_places(db, &count, arena);
	}
	struct host **list = mem_alloc(count * sizeof(struct host *));
	struct host *elected = hosts->elected;
	bool is_other = hosts->count != count;
	bool is_judged = hosts->is_judged && !is_other;

	for (size_t i = 0; i < hosts->count; i++)
		hosts->list[i]->is_listed = false;
	for (size_t i = 0; i < count; i++) {
		list[i] = take_known(hosts, &places[i]);
		if (!list[i])
			list[i] = host_new(db, &places[i]);
		list[i]->is_listed = true;
		is_other = is_other || list[i]->weight != places[i].weight;
		list[i]->weight = places[i].weight;
	}
	if (arena)
		arena_free(&arena);
	for (size_t i = 0; i < count; i++)
		is_judged = is_judged && list[i]->refs > 1;
	/* the weights may have changed, so that counting for the balance begins
	 * again */
	for (size_t i = 0; is_other && i < count; i++)
		list[i]->turns = 0;
	if (elected && elected->is_listed)
		elected->refs++;
	else
		elected = NULL;
	for (size_t i = 0; i < hosts->count; i++) {
		hosts->has_leavers |= !hosts->list[i]->is_listed;
		/* what was only shown of a host does not judge it from now on */
		if (!hosts->is_judged &&
		    (!hosts->list[i]->is_listed || hosts_has_roles(db) || count > 1))
			memset(&hosts->list[i]->verdict, 0,
			    sizeof(hosts->list[i]->verdict));
	}
	hosts_done(hosts);
	hosts->list = list;
	hosts->count = count;
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

static void send_hint(struct database *db, const struct host *host,
    const struct host_report *report, uint64_t now_us)
{
	struct catalog *c = db->catalog;
	bool is_soon = !report && now_us < db->hosts.hinted_us + HINT_US;

	if (!c->events || !c->events->hint || db->is_admin || is_soon)
		return;
	db->hosts.hinted_us = now_us;
	c->events->hint(c->events_ctx, host, report);
}

/* ---- what a pool has at a host ---- */

static void pool_host_free(struct pool *pool, struct pool_host *pool_host)
{
	assert(list_is_empty(&pool_host->idle) && !pool_host->slot_count);
	list_remove(&pool->balance.pool_hosts, &pool_host->node);
	host_unref(pool_host->host);
	mem_free(pool_host->refusal);
	mem_free(pool_host);
}

void hosts_forget_pool(struct pool *pool, bool all)
{
	struct pool_host *pool_host, *after;

	list_for_safe (pool_host, after, &pool->balance.pool_hosts, node) {
		if (all || (!pool_host->slot_count && !pool_host->host->is_listed))
			pool_host_free(pool, pool_host);
	}
}

struct pool_host *hosts_of_pool(struct pool *pool, struct host *host)
{
	struct pool_host *pool_host;

	list_for (pool_host, &pool->balance.pool_hosts, node) {
		if (pool_host->host == host)
			return pool_host;
	}
	pool_host = mem_zero(sizeof(*pool_host));
	pool_host->host = host;
	host->refs++;
	list_init(&pool_host->idle);
	list_push_back(&pool->balance.pool_hosts, &pool_host->node);
	return pool_host;
}

/* ---- attempts ---- */

/* How long what concerns one pool only counts. */
static uint64_t own_matter_us(const struct pool *pool)
{
	uint64_t period_us = scope_role_check_period(scope_of_database(pool->database));

	return period_us ? period_us : pool_login_retry(pool);
}

void hosts_claim(struct pool *pool, struct host *host)
{
	if (pool->balance.claimed)
		count_for_all(pool->balance.claimed, -1);
	pool->balance.claimed = host;
	count_for_all(host, 1);
}

void hosts_dial(struct pool *pool, struct slot *slot, struct host *host)
{
	assert(!slot->pool_host);
	slot->pool_host = hosts_of_pool(pool, host);
	slot->pool_host->slot_count++;
	host->connections++;
	if (pool->balance.claimed != host)
		count_for_all(host, 1);
	else
		pool->balance.claimed = NULL;
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

/* Kicks pools that wait because no host serves, or because their login to a slow host
 * takes long. */
static void tell_waiting_pools(const struct database *db)
{
	struct pool *pool;

	list_for (pool, &db->pools, db_node) {
		if (pool->failure.kind == FAILURE_HOSTS ||
		    !list_is_empty(&pool->waiting) ||
		    !list_is_empty(&pool->slots[SLOT_LOGIN]))
			pool_schedule(pool);
	}
}

/* ---- roles ---- */

void hosts_review(struct slot *slot)
{
	struct pool *pool = slot->pool;

	if (slot->pool_host && !slot->is_replication &&
	    !hosts_is_fit(pool, slot->pool_host->host))
		slot_mark(slot, DIRTY_MISPLACED);
}

static void mark_misplaced(struct pool *pool)
{
	struct slot *slot;

	for (int state = SLOT_LOGIN + 1; state < SLOT_STATE_COUNT; state++) {
		list_for (slot, &pool->slots[state], node)
			hosts_review(slot);
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
		pool_schedule(pool);
	}
}

static bool is_same_report(const struct host_report *a, const struct host_report *b)
{
	return a->role == b->role && a->is_read_only == b->is_read_only;
}

void hosts_learn(struct slot *slot, const struct host_report *report, uint64_t now_us)
{
	struct pool_host *pool_host = slot->pool_host;

	if (!pool_host)
		return;
	struct host *host = pool_host->host;
	bool is_new = !pool_host->has_told || !is_same_report(&host->report, report) ||
		      pool_host->is_read_only != report->is_read_only;
	if (hosts_are_judged(slot->pool->database) &&
	    !is_same_report(&host->report, report))
		hosts_hint(slot->pool->database, host, report, now_us);
	host->report = *report;
	pool_host->is_read_only = report->is_read_only;
	pool_host->has_told = true;
	pool_host->told_until_us = now_us + own_matter_us(slot->pool);
	if (!is_new)
		return;
	if (!host->is_down)
		set_level(host, slot->pool);
	follow_roles(slot->pool->database);
}

void hosts_doubt(const struct slot *slot, uint64_t now_us)
{
	struct host *host = slot->pool_host ? slot->pool_host->host : NULL;

	if (!host || host->report.is_kept_posted ||
	    (host->doubted_us && now_us - host->doubted_us < DOUBT_US))
		return;
	host->doubted_us = now_us;
	hosts_hint(slot->pool->database, host, NULL, now_us);
}

struct host *hosts_find(const struct hosts *hosts, const char *name, int port)
{
	for (size_t i = 0; i < hosts->count; i++)
		if (hosts->list[i]->port == port &&
		    is_same_text(hosts->list[i]->name, name))
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

/* What is shown of the only host of a database, until the monitor tells. */
static void set_lone(struct host *host, enum host_state state, const char *reason)
{
	struct host_value *v = &host->verdict.value;

	v->state = state;
	snprintf(v->reason, sizeof(v->reason), "%s", reason);
}

void hosts_answered(struct slot *slot)
{
	struct host *host = slot->pool_host ? slot->pool_host->host : NULL;

	if (!host)
		return;
	host->was_tried = true;
	if (!hosts_are_watched(slot->pool->database))
		set_lone(host, HOST_UP, "");
	if (!host->is_down)
		return;
	set_level(host, slot->pool);
	host->is_down = false;
	tell_waiting_pools(slot->pool->database);
	follow_roles(slot->pool->database);
}

void hosts_note_slow(struct slot *slot)
{
	assert(slot->state == SLOT_LOGIN && !slot->is_slow);
	slot->is_slow = true;
	slot->pool->balance.slow_logins++;
	slot->pool_host->host->slow_logins++;
	tell_waiting_pools(slot->pool->database);
}

void hosts_note_error(struct slot *slot, const char *text)
{
	struct host *host = slot->pool_host ? slot->pool_host->host : NULL;

	if (host)
		snprintf(host->last_error, sizeof(host->last_error), "%s", text);
}

void hosts_failed(
    struct slot *slot, const char *text, uint64_t retry_us, uint64_t now_us)
{
	struct host *host = slot->pool_host ? slot->pool_host->host : NULL;

	if (!host)
		return;
	host->was_tried = true;
	host->failures++;
	send_hint(slot->pool->database, host, NULL, now_us);
	/* attempts that began before the host was known to be down tell nothing new */
	if (host->is_down && now_us < host->retry_us)
		return;
	host->report = (struct host_report){.role = HOST_ROLE_UNKNOWN};
	snprintf(host->last_error, sizeof(host->last_error), "%s", text);
	host->retry_us = now_us + retry_us;
	host->is_down = true;
	if (!hosts_are_watched(slot->pool->database))
		set_lone(host, HOST_DOWN, text);
	tell_waiting_pools(slot->pool->database);
}

/* ---- the monitor of hosts ---- */

void hosts_hint(struct database *db, const struct host *host,
    const struct host_report *report, uint64_t now_us)
{
	if (hosts_are_watched(db))
		send_hint(db, host, report, now_us);
}

void hosts_note_lone(
    struct database *db, const char *name, int port, const struct host_value *value)
{
	struct host *host = db->hosts.list[0];

	if (hosts_are_watched(db) || db->is_admin || host->port != port ||
	    !is_same_text(host->name, name))
		return;
	host->verdict.value = *value;
	if (value->state != HOST_UP)
		snprintf(
		    host->last_error, sizeof(host->last_error), "%s", value->reason);
}

bool hosts_avoid(struct slot *slot, const char *text, uint64_t now_us)
{
	struct pool *pool = slot->pool;

	if (!hosts_are_watched(pool->database))
		return false;
	hosts_hint(pool->database, slot->pool_host->host, NULL, now_us);
	mem_free(slot->pool_host->refusal);
	slot->pool_host->refusal = mem_strdup(text);
	pool->balance.avoids_some = true;
	slot->pool_host->avoided_until_us =
	    now_us + time_earlier(own_matter_us(pool), HOSTS_RETRY_US);
	if (hosts_has_other(pool, slot->pool_host->host))
		return true;
	slot->pool_host->avoided_until_us = 0;
	return false;
}

void hosts_forgive(struct slot *slot)
{
	struct database *db = slot->pool->database;

	if (!slot->pool_host)
		return;
	/* it lets the pool in, though not the monitor */
	if (slot->pool_host->host->verdict.value.state == HOST_REFUSES)
		hosts_hint(db, slot->pool_host->host, &(struct host_report){0},
		    db->catalog->seen_us);
	slot->pool_host->avoided_until_us = 0;
	if (!slot->pool_host->refusal)
		return;
	mem_free(slot->pool_host->refusal);
	slot->pool_host->refusal = NULL;
	/* a primary in reserve is not needed any more */
	mark_misplaced(slot->pool);
}

void hosts_lose(struct database *db, const char *name, int port)
{
	struct pool_host *pool_host;
	struct pool *pool;

	list_for (pool, &db->pools, db_node) {
		list_for (pool_host, &pool->balance.pool_hosts, node) {
			struct host *host = pool_host->host;
			if (host->is_listed || host->port != port ||
			    !is_same_text(host->name, name))
				continue;
			host->verdict.value.state = HOST_HANGS;
			pool->balance.has_lost = true;
			pool_schedule(pool);
		}
	}
}

bool hosts_is_lost(const struct slot *slot)
{
	const struct host *host = slot->pool_host ? slot->pool_host->host : NULL;

	return host && (hosts_are_judged(slot->pool->database) || !host->is_listed) &&
	       host_group_is_hopeless(&host->verdict) &&
	       hosts_has_other(slot->pool, host);
}

/* Another host serves, or one is up again: no pool needs to wait because its last
 * attempt has failed. */
static void forget_failures(struct database *db)
{
	struct pool *pool;

	list_for (pool, &db->pools, db_node)
		pool->failure.kind = FAILURE_NONE;
}

/* What the verdict says about whether the host can be reached. */
static void follow_reach(struct database *db, struct host *host, uint64_t now_us)
{
	const struct host_value *v = &host->verdict.value;
	bool was_down = host->is_down;

	switch (v->state) {
	case HOST_NOT_TRIED:
		return;
	case HOST_UP:
		host->is_down = false;
		if (v->report.role != HOST_ROLE_UNKNOWN)
			host->report = v->report;
		if (was_down)
			forget_failures(db);
		return;
	case HOST_REFUSES:
		/* it is tried when no other host serves, so that clients are told */
		host->retry_us = now_us + HOSTS_RETRY_US;
		break;
	case HOST_HANGS:
	case HOST_DOWN:
		host->retry_us = UINT64_MAX;
		break;
	}
	host->is_down = true;
	host->report = (struct host_report){.role = HOST_ROLE_UNKNOWN};
	snprintf(host->last_error, sizeof(host->last_error), "%s", v->reason);
}

void hosts_follow(
    struct database *db, const struct host_verdict *list, size_t count, uint64_t now_us)
{
	struct hosts *hosts = &db->hosts;
	bool is_served_anew = false;
	struct pool *pool;

	/* the entry has others by now, about which it tells soon */
	if (count != hosts->count)
		return;
	for (size_t i = 0; i < count; i++) {
		is_served_anew |= host_group_serves(&list[i]) &&
				  !host_group_serves(&hosts->list[i]->verdict);
		hosts->list[i]->verdict = list[i];
	}
	if (is_served_anew)
		forget_failures(db);
	hosts->is_judged = true;
	hosts->is_stale = false;
	hosts->hinted_us = 0; /* what happens from now on is news */
	for (size_t i = 0; i < count; i++)
		follow_reach(db, hosts->list[i], now_us);
	/* an administrator's choice ends when another primary is in force */
	for (size_t i = 0; i < hosts->count && hosts->elected; i++) {
		if (hosts->list[i] == hosts->elected ||
		    !hosts->list[i]->verdict.is_in_force)
			continue;
		host_unref(hosts->elected);
		hosts->elected = NULL;
	}
	list_for (pool, &db->pools, db_node) {
		mark_misplaced(pool);
		/* where no other host serves, one that refused the login a moment ago
		 * is tried again */
		struct pool_host *pool_host;
		if (pool->balance.avoids_some && !hosts_has_server(pool)) {
			pool->balance.avoids_some = false;
			list_for (pool_host, &pool->balance.pool_hosts, node)
				pool_host->avoided_until_us = 0;
		}
		pool->balance.has_lost = true;
		pool_schedule(pool);
	}
}

void hosts_rest(struct database *db)
{
	db->hosts.is_stale = true;
	db->hosts.hinted_us = 0;
}

/* ---- slots ---- */

void hosts_slot_comes(struct slot *slot, bool to_front)
{
	struct pool_host *pool_host = slot->pool_host;

	if (!pool_host)
		return;
	pool_host->host->logins += slot->state == SLOT_LOGIN;
	pool_host->host->resting +=
	    slot->state == SLOT_IDLE || slot->state == SLOT_USED;
	if (slot->state != SLOT_IDLE)
		return;
	if (to_front)
		list_push_front(&pool_host->idle, &slot->host_node);
	else
		list_push_back(&pool_host->idle, &slot->host_node);
}

void hosts_slot_goes(struct slot *slot)
{
	struct pool_host *pool_host = slot->pool_host;

	if (!pool_host)
		return;
	pool_host->host->logins -= slot->state == SLOT_LOGIN;
	pool_host->host->resting -=
	    slot->state == SLOT_IDLE || slot->state == SLOT_USED;
	if (slot->state == SLOT_LOGIN && slot->is_slow) {
		slot->is_slow = false;
		slot->pool->balance.slow_logins--;
		slot->pool_host->host->slow_logins--;
		tell_waiting_pools(slot->pool->database);
	}
	if (slot->state == SLOT_IDLE)
		list_remove(&pool_host->idle, &slot->host_node);
}

void hosts_slot_ends(struct slot *slot)
{
	struct pool_host *pool_host = slot->pool_host;

	if (!pool_host)
		return;
	slot->pool_host = NULL;
	pool_host->host->connections--;
	count_for_all(pool_host->host, -1);
	pool_host->slot_count--;
	if (!pool_host->slot_count && !pool_host->host->is_listed)
		pool_host_free(slot->pool, pool_host);
}
