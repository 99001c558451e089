/*
 * Moves databases from host to host.  How pools pause, and how they look at hosts while
 * they are paused, is the pool's business; here is when to go on, and the clock.
 */
#include "session/switchover.h"

#include <stdlib.h>
#include <string.h>

#include "pool/hosts_role.h"
#include "pool/pool.h"
#include "pool/scopes.h"

/* Clients stand still meanwhile, so nothing is kept waiting for long. */
enum { CHECK_US = 10000 };

struct switchover {
	struct node node; /* in site->switchovers */
	struct site *site;
	char *database;    /* owned */
	char *to;          /* owned; "": whichever */
	char *failure;     /* owned */
	struct buf news;   /* what was not told yet */
	struct buf told;   /* what was asked for last */
	struct host **old; /* owned, to compare with only: those that served before */
	size_t old_count;
	uint64_t until_us;
	uint64_t paused_us; /* since when no server is in use; 0: some still are */
	struct deadline due;
	bool is_watched, has_ended;
};

/* ---- hosts ---- */

/* Is it what was written: a name, or a name and a port? */
static bool is_named(const struct host *host, const char *text)
{
	struct buf name;
	bool is_it;

	if (host->name && strcmp(host->name, text) == 0)
		return true;
	buf_init(&name, 0);
	host_put_name(host, &name);
	is_it = strcmp(buf_text(&name), text) == 0;
	buf_done(&name);
	return is_it;
}

/* How many there are of that name; *found is the last. */
static size_t find_hosts(
    const struct hosts *hosts, const char *text, struct host **found)
{
	size_t count = 0;

	*found = NULL;
	for (size_t i = 0; i < hosts->count; i++) {
		if (!is_named(hosts->list[i], text))
			continue;
		*found = hosts->list[i];
		count++;
	}
	return count;
}

/* Does it use one host at a time? */
static bool is_single(const struct database *db)
{
	int target = scope_target_session_attrs(scope_of_database(db));

	return target == TARGET_READ_WRITE || target == TARGET_PRIMARY ||
	       db->config->load_balance_hosts == LOAD_BALANCE_DISABLE ||
	       db->hosts.elected;
}

/* It may have been interrupted, and not have noticed yet. */
static bool is_under_way(const struct site *site, const struct database *db)
{
	const struct switchover *s;

	list_for (s, &site->switchovers, node) {
		if (!s->has_ended && strcmp(s->database, db->name) == 0)
			return true;
	}
	return false;
}

int switchover_check(const struct site *site, const struct database *db, const char *to,
    enum error_id *id)
{
	struct host *host;
	size_t count = find_hosts(&db->hosts, to, &host);

	if (site->shutdown != SHUTDOWN_NONE)
		*id = ERROR_GOING_DOWN;
	else if (is_under_way(site, db))
		*id = ERROR_DATABASE_SWITCHING;
	else if (db->paused)
		*id = ERROR_DATABASE_PAUSED;
	else if (db->hosts.count < 2)
		*id = ERROR_ONE_HOST;
	else if (*to && count == 0)
		*id = ERROR_UNKNOWN_HOST;
	else if (*to && count > 1)
		*id = ERROR_AMBIGUOUS_HOST;
	else if (!*to && !is_single(db))
		*id = ERROR_SEVERAL_HOSTS;
	else
		return 0;
	return -1;
}

/* ---- what was before ---- */

static bool is_old(const struct switchover *s, const struct host *host)
{
	for (size_t i = 0; i < s->old_count; i++) {
		if (s->old[i] == host)
			return true;
	}
	return false;
}

static void note_old(struct switchover *s, const struct database *db)
{
	const struct hosts *hosts = &db->hosts;

	s->old = mem_alloc(hosts->count * sizeof(struct host *));
	for (size_t i = 0; i < hosts->count; i++) {
		struct host *host = hosts->list[i];
		bool is_known = host->report.role != HOST_ROLE_UNKNOWN;
		/* one that is being looked at for the first time serves nobody yet */
		bool serves = host->connections > host->logins;
		if (is_known ? hosts_is_successor(db, host) : serves)
			s->old[s->old_count++] = host;
	}
}

/* One that has been gone, or something else, since the database stands still may become
 * the one to go on at. */
static void forget_old(
    struct switchover *s, const struct database *db, const struct host *host)
{
	for (size_t i = 0; i < s->old_count; i++) {
		if (s->old[i] == host && host->looked_us >= s->paused_us &&
		    !hosts_is_successor(db, host))
			s->old[i] = NULL;
	}
}

/* ---- the end ---- */

static void free_switchover(struct switchover *s)
{
	list_remove(&s->site->switchovers, &s->node);
	deadline_clear(s->site->loop, &s->due);
	buf_done(&s->news);
	buf_done(&s->told);
	mem_free(s->database);
	mem_free(s->to);
	mem_free(s->failure);
	mem_free(s->old);
	mem_free(s);
}

static void finish(struct switchover *s)
{
	s->has_ended = true;
	if (!s->is_watched)
		free_switchover(s);
}

static void go_on(struct switchover *s, struct database *db)
{
	db->is_switching = db->paused = false;
	catalog_kick_all(s->site->catalog, db);
}

static void succeed(struct switchover *s, struct database *db, struct host *host)
{
	struct buf name;

	buf_init(&name, 0);
	host_put_name(host, &name);
	log_info(s->site->log, "switchover of database '%s': it goes on at %s",
	    s->database, buf_text(&name));
	buf_printf(
	    &s->news, "database \"%s\" goes on at %s", s->database, buf_text(&name));
	buf_done(&name);
	hosts_elect(db, host);
	go_on(s, db);
	finish(s);
}

static void fail(struct switchover *s, const char *why)
{
	log_warning(
	    s->site->log, "switchover of database '%s' failed: %s", s->database, why);
	s->failure = mem_strdup(why);
	finish(s);
}

/* ---- on the way ---- */

static size_t servers_in_use(const struct database *db)
{
	const struct pool *pool;
	size_t count = 0;

	list_for (pool, &db->pools, db_node)
		count += pool_count_in_use(pool);
	return count;
}

static void time_out(struct switchover *s, struct database *db)
{
	uint64_t limit = scope_switchover_timeout(scope_of_database(db));
	size_t count = servers_in_use(db);
	struct buf why;

	buf_init(&why, 0);
	buf_printf(
	    &why, "switchover_timeout (%.15g seconds) is over: ", (double)limit / 1e6);
	if (count > 0)
		buf_printf(&why, "%zu server connection%s still in use", count,
		    count == 1 ? " is" : "s are");
	else
		buf_put_text(&why, *s->to ? "that host is not fit: "
					  : "no other host has become fit: ");
	if (count == 0)
		hosts_describe(&db->hosts, &why);
	buf_put_text(&why, "; everything goes on as before");
	go_on(s, db);
	fail(s, buf_text(&why));
	buf_done(&why);
}

/* Nothing is in use any more: PostgreSQL may be switched over now. */
static void stand_still(struct switchover *s)
{
	s->paused_us = loop_now(s->site->loop);
	log_info(s->site->log,
	    "switchover of database '%s': paused, waiting for its next host",
	    s->database);
	buf_printf(&s->news,
	    "database \"%s\" is paused and has no server connection in use; "
	    "waiting for its next host",
	    s->database);
}

/* The host to go on at, or NULL: none yet. */
static struct host *find_successor(struct switchover *s, const struct database *db)
{
	struct host *named = NULL;

	if (*s->to)
		find_hosts(&db->hosts, s->to, &named);
	for (size_t i = 0; i < db->hosts.count; i++) {
		struct host *host = db->hosts.list[i];
		forget_old(s, db, host);
		bool is_candidate = *s->to ? host == named : !is_old(s, host);
		if (is_candidate && host->looked_us >= s->paused_us &&
		    hosts_is_successor(db, host))
			return host;
	}
	return NULL;
}

/* Without a login to any server nobody can look at hosts, and nothing is to be moved.
 */
static bool has_pool(const struct database *db)
{
	const struct pool *pool;

	list_for (pool, &db->pools, db_node) {
		if (pool->has_logged_in)
			return true;
	}
	return false;
}

static void end_unused(struct switchover *s, struct database *db)
{
	struct host *named;

	log_info(s->site->log,
	    "switchover of database '%s': it has no server connections", s->database);
	buf_printf(&s->news,
	    "database \"%s\" has opened no server connection: nothing was to be moved, "
	    "and no host was looked at",
	    s->database);
	if (*s->to && find_hosts(&db->hosts, s->to, &named) == 1)
		hosts_elect(db, named);
	go_on(s, db);
	finish(s);
}

static void advance(struct switchover *s, struct database *db)
{
	struct host *host;

	if (!has_pool(db)) {
		end_unused(s, db);
		return;
	}
	if (!s->paused_us && servers_in_use(db) == 0)
		stand_still(s);
	if (s->paused_us && (host = find_successor(s, db)))
		succeed(s, db, host);
	else if (loop_now(s->site->loop) >= s->until_us)
		time_out(s, db);
	else
		deadline_set(
		    s->site->loop, &s->due, loop_now(s->site->loop) + CHECK_US);
}

/* Does it have a reason to end? */
static const char *interruption(const struct switchover *s, const struct database *db)
{
	struct host *host;

	if (!db)
		return "the database was removed";
	if (s->site->shutdown != SHUTDOWN_NONE)
		return "the pooler is shutting down";
	if (!db->paused)
		return "it was interrupted, and everything goes on as before";
	if (!db->is_switching)
		return "it was interrupted by KILL, and the database is paused";
	if (*s->to && find_hosts(&db->hosts, s->to, &host) != 1)
		return "the database has no such host any more; everything goes on as "
		       "before";
	return NULL;
}

static void check(struct deadline *due)
{
	struct switchover *s = container_of(due, struct switchover, due);
	struct database *db = catalog_find_database(s->site->catalog, s->database);
	const char *why = interruption(s, db);

	if (!why) {
		advance(s, db);
		return;
	}
	if (db && db->is_switching)
		go_on(s, db);
	fail(s, why);
}

struct switchover *switchover_begin(
    struct site *site, struct database *db, const char *to)
{
	struct switchover *s = mem_zero(sizeof(*s));
	uint64_t limit = scope_switchover_timeout(scope_of_database(db));

	s->site = site;
	s->database = mem_strdup(db->name);
	s->to = mem_strdup(to);
	s->is_watched = true;
	s->until_us = limit ? loop_now(site->loop) + limit : UINT64_MAX;
	buf_init(&s->news, 0);
	buf_init(&s->told, 0);
	note_old(s, db);
	deadline_init(&s->due, check);
	list_push_back(&site->switchovers, &s->node);
	db->is_switching = db->paused = true;
	catalog_kick_all(site->catalog, db);
	deadline_set(site->loop, &s->due, loop_now(site->loop));
	return s;
}

void switchover_interrupt(struct switchover *s)
{
	struct database *db = catalog_find_database(s->site->catalog, s->database);

	if (!s->has_ended && db && db->is_switching)
		go_on(s, db);
}

/* ---- watching ---- */

const char *switchover_news(struct switchover *s)
{
	if (s->news.len == 0)
		return NULL;
	buf_clear(&s->told);
	buf_put_text(&s->told, buf_text(&s->news));
	buf_clear(&s->news);
	return buf_text(&s->told);
}

bool switchover_has_ended(const struct switchover *s)
{
	return s->has_ended;
}

const char *switchover_failure(const struct switchover *s)
{
	return s->failure;
}

void switchover_forget(struct switchover **sp)
{
	struct switchover *s = *sp;

	*sp = NULL;
	if (!s)
		return;
	s->is_watched = false;
	if (s->has_ended)
		free_switchover(s);
}

void switchover_init(struct site *site)
{
	list_init(&site->switchovers);
}

void switchover_done(struct site *site)
{
	struct node *first;

	while ((first = list_first(&site->switchovers)))
		free_switchover(container_of(first, struct switchover, node));
}
