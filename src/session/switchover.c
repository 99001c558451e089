/*
 * Decides when a paused database continues, and at which host.
 *
 * Each worker has pools of its own: the control thread looks at all sites periodically
 * until no server is in use.  Then it asks the monitor of hosts again and again, and
 * reads its verdicts.
 */
#include "session/switchover.h"

#include <string.h>

#include "pool/hosts_role.h"
#include "pool/pool.h"
#include "pool/scopes.h"
#include "session/workers.h"

/* The interval is short because the clients wait. */
enum { CHECK_US = 10000 };

/* The host at which the database continues. */
struct successor {
	char *name; /* borrowed; NULL: the unix socket */
	int port;
	bool is_there;
};

/* The state of the database at all sites. */
struct survey {
	struct switchover *s;
	size_t in_use;
	bool has_pool; /* some site has a pool that has logged in */
};

struct switchover {
	struct node node; /* in site->switchovers */
	struct site *site;
	char *database;  /* owned */
	char *to;        /* owned; "": any host */
	char *failure;   /* owned */
	struct buf news; /* text that switchover_news has not returned yet */
	struct buf told; /* the text that switchover_news has returned last */
	/* names (owned) of hosts that served before; kept here because each site has
	 * its own records of hosts */
	struct map *old;
	uint64_t until_us;
	/* since when no server is in use; 0: some still are in use */
	uint64_t paused_us;
	struct deadline due;
	bool is_watched, has_ended;
};

/* ---- hosts ---- */

/* How many hosts the text names, with or without their port; *found is the last one.  A
 * name of several addresses names all of them. */
static size_t find_hosts(
    const struct hosts *hosts, const char *text, struct host **found)
{
	size_t count = 0, len = strlen(text);
	struct buf whole;

	*found = NULL;
	for (size_t i = 0; i < hosts->count; i++) {
		const char *name = hosts->list[i]->name;
		bool is_part = name && *name != '/' && *name != '@' &&
			       strncmp(name, text, len) == 0 && name[len] == '/';
		buf_init_sure(&whole);
		host_put_name(hosts->list[i], &whole);
		if (is_part || (name && strcmp(name, text) == 0) ||
		    strcmp(buf_text(&whole), text) == 0) {
			*found = hosts->list[i];
			count++;
		}
		buf_done(&whole);
	}
	return count;
}

/* Does the database use one host at a time? */
static bool is_single(const struct database *db)
{
	int target = scope_target_session_attrs(scope_of_database(db));

	return target == TARGET_READ_WRITE || target == TARGET_PRIMARY ||
	       db->config->load_balance_hosts == LOAD_BALANCE_DISABLE ||
	       db->hosts.elected;
}

/* Is a switchover of this database in progress? */
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

/* ---- hosts that served before ---- */

static bool is_old(const struct switchover *s, const struct host *host)
{
	struct buf name;

	buf_init_sure(&name);
	host_put_name(host, &name);
	bool is_it = map_get_str(s->old, buf_text(&name));
	buf_done(&name);
	return is_it;
}

static void add_old(struct switchover *s, const struct host *host)
{
	struct buf name;
	char *old;

	if (is_old(s, host))
		return;
	buf_init_sure(&name);
	host_put_name(host, &name);
	old = mem_strdup(buf_text(&name));
	map_put_str(s->old, old, old);
	buf_done(&name);
}

static void remove_old(struct switchover *s, const struct host *host)
{
	struct buf name;
	char *old;

	buf_init_sure(&name);
	host_put_name(host, &name);
	old = map_get_str(s->old, buf_text(&name));
	if (old)
		map_del_str(s->old, old);
	mem_free(old);
	buf_done(&name);
}

/* Has the host answered since the database is paused? */
static bool has_answered(const struct switchover *s, const struct host *host)
{
	return host->verdict.value.report.at_us >= s->paused_us;
}

/* ---- the end ---- */

static void free_switchover(struct switchover *s)
{
	char *old;
	size_t at = 0;

	list_remove(&s->site->switchovers, &s->node);
	deadline_clear(s->site->loop, &s->due);
	while ((old = map_next(s->old, &at)))
		mem_free(old);
	map_free(&s->old);
	buf_done(&s->news);
	buf_done(&s->told);
	mem_free(s->database);
	mem_free(s->to);
	mem_free(s->failure);
	mem_free(s);
}

static void finish(struct switchover *s)
{
	s->has_ended = true;
	if (!s->is_watched)
		free_switchover(s);
}

/* The end of a switchover, as a broadcast to every site. */
struct switch_end {
	bool elects, has_name;
	int port;
	size_t host_at; /* in texts */
	char texts[];   /* the names of the database and of the host */
};

static void end_at(struct site *site, const void *what)
{
	const struct switch_end *e = what;
	struct database *db = catalog_find_database(site->catalog, e->texts);

	if (!db)
		return;
	if (e->elects) {
		const char *name = e->has_name ? e->texts + e->host_at : NULL;
		struct host *host = hosts_find(&db->hosts, name, e->port);
		if (host)
			hosts_elect(db, host);
	}
	db->is_switching = db->paused = false;
	catalog_schedule_all(site->catalog, db);
}

/* Makes all sites continue at this host; NULL: at the old one. */
static void go_on(const struct switchover *s, const struct successor *to)
{
	const char *host = to && to->name ? to->name : "";
	size_t database_size = strlen(s->database) + 1, host_size = strlen(host) + 1;
	size_t size = sizeof(struct switch_end) + database_size + host_size;
	struct switch_end *e = mem_zero(size);

	if (to) {
		e->elects = true;
		e->has_name = to->name != NULL;
		e->port = to->port;
	}
	e->host_at = database_size;
	memcpy(e->texts, s->database, database_size);
	memcpy(e->texts + database_size, host, host_size);
	workers_broadcast(s->site, end_at, e, size);
	mem_free(e);
}

static void fail(struct switchover *s, const char *why)
{
	log_put(s->site->log, LEVEL_WARNING | KIND_TAKEOVER, NULL,
	    "switchover of database '%s' failed: %s", s->database, why);
	s->failure = mem_strdup(why);
	finish(s);
}

/* ---- the state at each site ---- */

/* Is there a pool that has logged in to a server? */
static bool has_pool(const struct database *db)
{
	const struct pool *pool;

	list_for (pool, &db->pools, db_node) {
		if (pool->has_logged_in)
			return true;
	}
	return false;
}

/* Finds the host to continue at, if there is one yet. */
static void find_successor(
    struct switchover *s, const struct database *db, struct successor *found)
{
	struct host *named = NULL;

	if (*s->to)
		find_hosts(&db->hosts, s->to, &named);
	for (size_t i = 0; i < db->hosts.count && !found->is_there; i++) {
		const struct host *host = db->hosts.list[i];
		/* A host that served before may become the successor again if it was
		 * down, or had another role, while the database was paused */
		enum host_state state = host->verdict.value.state;
		bool is_lost = state != HOST_UP && state != HOST_NOT_TRIED;
		if ((has_answered(s, host) || is_lost) && !hosts_is_successor(db, host))
			remove_old(s, host);
		bool is_candidate = *s->to ? host == named : !is_old(s, host);
		if (!is_candidate || !has_answered(s, host) ||
		    !hosts_is_successor(db, host))
			continue;
		*found = (struct successor){
		    .name = host->name, .port = host->port, .is_there = true};
	}
}

/* Pauses the database at this site.  It runs at each check, because the database can be
 * new at a site, and a worker may not have answered before. */
static void hold(struct switchover *s, struct database *db)
{
	if (db->is_switching)
		return;
	const struct hosts *hosts = &db->hosts;
	for (size_t i = 0; i < hosts->count; i++) {
		const struct host *host = hosts->list[i];
		/* the monitor's word counts, as for the successor; before its first one
		 * any connection does that is not still logging in */
		bool is_judged = host->verdict.value.report.role != HOST_ROLE_UNKNOWN;
		bool serves = host->connections > host->logins;
		if (is_judged ? hosts_is_successor(db, host) : serves)
			add_old(s, host);
	}
	db->is_switching = db->paused = true;
	catalog_schedule_all(db->catalog, db);
}

static void look_at(struct site *site, void *ctx)
{
	struct survey *survey = ctx;
	struct switchover *s = survey->s;
	bool is_new;
	struct database *db = catalog_database(site->catalog, s->database, &is_new);
	const struct pool *pool;

	if (!db)
		return;
	hold(s, db);
	list_for (pool, &db->pools, db_node)
		survey->in_use += pool_count_in_use(pool);
	survey->has_pool = survey->has_pool || has_pool(db);
}

/* ---- progress ---- */

static void time_out(struct switchover *s, const struct database *db, size_t in_use)
{
	uint64_t limit = scope_switchover_timeout(scope_of_database(db));
	struct buf why;

	buf_init(&why, 0);
	buf_printf(
	    &why, "switchover_timeout (%.15g seconds) is over: ", (double)limit / 1e6);
	if (in_use > 0)
		buf_printf(&why, "%zu server connection%s still in use", in_use,
		    in_use == 1 ? " is" : "s are");
	else if (!s->paused_us)
		buf_put_text(&why, "a worker does not answer");
	else
		buf_put_text(&why, *s->to ? "that host is not fit: "
					  : "no other host has become fit: ");
	if (in_use == 0 && s->paused_us)
		hosts_describe(db, &why);
	buf_put_text(&why, "; everything goes on as before");
	go_on(s, NULL);
	fail(s, buf_text(&why));
	buf_done(&why);
}

/* No server is in use any more: PostgreSQL may be switched over now. */
static void stand_still(struct switchover *s)
{
	/* other sites may have checked hosts while they were asked one after the other
	 */
	if (s->site->worker)
		loop_touch_clock(s->site->loop);
	s->paused_us = loop_now(s->site->loop);
	log_put(s->site->log, LEVEL_LOG | KIND_TAKEOVER, NULL,
	    "switchover of database '%s': paused, waiting for its next host",
	    s->database);
	buf_printf(&s->news,
	    "database \"%s\" is paused and has no server connection in use; "
	    "waiting for its next host",
	    s->database);
}

/* The database has no server connections, so the switchover ends at once. */
static void end_unused(struct switchover *s, const struct database *db)
{
	struct successor to = {.is_there = false};
	struct host *named;

	log_put(s->site->log, LEVEL_LOG | KIND_TAKEOVER, NULL,
	    "switchover of database '%s': it has no server connections", s->database);
	buf_printf(&s->news,
	    "database \"%s\" has opened no server connection: nothing was to be moved, "
	    "and no host was looked at",
	    s->database);
	if (*s->to && find_hosts(&db->hosts, s->to, &named) == 1)
		to = (struct successor){
		    .name = named->name, .port = named->port, .is_there = true};
	go_on(s, to.is_there ? &to : NULL);
	finish(s);
}

static void advance(struct switchover *s, struct database *db)
{
	struct survey survey = {.s = s};
	struct successor successor = {.is_there = false};
	bool are_all_there = workers_each(s->site, look_at, &survey) == 0;
	struct buf name;

	if (s->paused_us) {
		find_successor(s, db, &successor);
		hosts_hint(db, db->hosts.list[0], NULL, loop_now(s->site->loop));
	}

	if (!survey.has_pool && are_all_there)
		end_unused(s, db);
	else if (successor.is_there) {
		const struct host host = {
		    .name = successor.name, .port = successor.port};
		buf_init(&name, 0);
		host_put_name(&host, &name);
		log_put(s->site->log, LEVEL_LOG | KIND_TAKEOVER, NULL,
		    "switchover of database '%s': it goes on at %s", s->database,
		    buf_text(&name));
		buf_printf(&s->news, "database \"%s\" goes on at %s", s->database,
		    buf_text(&name));
		buf_done(&name);
		go_on(s, &successor);
		finish(s);
	} else if (loop_now(s->site->loop) >= s->until_us)
		time_out(s, db, survey.in_use);
	else {
		if (!s->paused_us && survey.in_use == 0 && are_all_there)
			stand_still(s);
		deadline_set(
		    s->site->loop, &s->due, loop_now(s->site->loop) + CHECK_US);
	}
}

/* Why the switchover has to be given up; NULL: it has not. */
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
		go_on(s, NULL);
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
	s->old = map_new();
	deadline_init(&s->due, check);
	list_push_back(&site->switchovers, &s->node);
	hold(s, db);
	deadline_set(site->loop, &s->due, loop_now(site->loop));
	return s;
}

void switchover_interrupt(struct switchover *s)
{
	struct database *db = catalog_find_database(s->site->catalog, s->database);

	if (!s->has_ended && db && db->is_switching)
		go_on(s, NULL);
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
