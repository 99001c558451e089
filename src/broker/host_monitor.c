/*
 * Drives the watches of hosts with connections and questions, asks all sites which
 * databases need it, and tells them the verdicts.
 */
#include "broker/host_monitor.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/dial_exchange.h"
#include "pool/host_group.h"
#include "pool/hosts_role.h"
#include "pool/pool_effective.h"
#include "pool/scopes.h"
#include "session/crew.h"
#include "session/server_role.h"
#include "wire/codec.h"

/* How often all sites are asked which databases have clients. */
enum { SURVEY_US = 1000000 };

struct watched_host {
	struct node node; /* in monitor->hosts */
	struct host_monitor *monitor;
	struct host_watch watch;
	struct host_policy policy;
	struct server *server; /* its connection, or the attempt; NULL: none */
	/* as whom it logs in; the database is held.  NULL: nobody has asked yet */
	struct database *database;
	char *user;           /* owned */
	struct secret secret; /* owned */
	struct scram_keys keys;
	struct scram_cache cache;
	bool has_keys;
	bool speaks_3_0;
	/* the question in its short form, and why the long one failed */
	bool is_short;
	char unasked[HOST_REASON_MAX];
	bool has_row;
	struct host_report report; /* of the answer under way */
	char why[HOST_REASON_MAX]; /* the system's words about the attempt */
	bool is_noted;             /* it has answered since the last decision */
	char told[2 * HOST_REASON_MAX];
};

struct watched_database {
	struct node node; /* in monitor->databases */
	char *name;       /* owned */
	struct host_group group;
	struct watched_host **hosts; /* owned */
	uint64_t wake_us;
	/* what the last survey has found */
	bool is_wanted, is_busy;
	bool was_wanted;     /* by the survey before */
	bool wants_verdicts; /* some site has none yet */
};

struct host_monitor {
	struct site *site;
	struct list hosts, databases;
	struct deadline survey_due, wake;
	struct later decision;
	bool is_on; /* some database of the configuration may need it */
	bool was_hinted;
};

/* A hint on its way to the control site. */
struct hint {
	struct letter letter;
	struct site *control;
	/* a server there has reported this; HOST_ROLE_UNKNOWN: nothing */
	struct host_report report;
	int port;
	bool has_name;
	char name[];
};

static const struct dial_owner monitor_owner;
static const struct conn_ops monitor_ops;

static void go_on(struct watched_host *w);

static uint64_t now_of(const struct host_monitor *m)
{
	return loop_now(m->site->loop);
}

static void host_name(const struct host_watch *watch, struct buf *out)
{
	const struct host host = {.name = watch->name, .port = watch->port};

	host_put_name(&host, out);
}

/* ---- logins ---- */

static struct watched_host *host_of(const struct server *server)
{
	struct host_monitor *m = server->conn.site->host_monitor;
	struct watched_host *w;

	list_for (w, &m->hosts, node) {
		if (w->server == server)
			return w;
	}
	return NULL;
}

static struct dial_identity identity_of(const struct server *server)
{
	struct watched_host *w = host_of(server);

	return (struct dial_identity){
	    .db = w->database->config,
	    .scope = scope_of_database(w->database),
	    .user = w->user,
	    .secret = &w->secret,
	    .pass_through = w->has_keys ? &w->keys : NULL,
	    .cache = &w->cache,
	    .lane = w->database->name,
	    .speaks_3_0 = &w->speaks_3_0,
	};
}

/* The monitor tells of changes itself. */
static enum log_level log_level(struct server *server, const char *why)
{
	struct watched_host *w = host_of(server);

	if (w)
		snprintf(w->why, sizeof(w->why), "%s", why);
	return LEVEL_DEBUG;
}

static void failed(struct server *server, enum dial_failure kind, const char *text,
    const char *sqlstate)
{
	struct watched_host *w = host_of(server);
	bool is_network = kind == DIAL_NETWORK;

	(void)sqlstate;
	if (!w)
		return;
	w->server = NULL;
	host_watch_failed(&w->watch, is_network ? WATCH_LOST : WATCH_REFUSED,
	    is_network && *w->why ? w->why : text, now_of(w->monitor));
	go_on(w);
}

static void refused(struct server *server, const struct error_fields *f)
{
	dial_fail(server, DIAL_LOGIN, f->message, f->sqlstate, f->message);
}

static void connect_to(struct watched_host *w)
{
	w->why[0] = '\0';
	if (!w->database) {
		host_watch_failed(&w->watch, WATCH_NO_LOGIN,
		    "no user of its databases is known", now_of(w->monitor));
		return;
	}
	w->server = dial_new(w->monitor->site, &monitor_owner);
	dial_aim(w->server, w->watch.name, w->watch.port);
	dial_go(w->server);
}

static void retried(struct server *server)
{
	struct watched_host *w = host_of(server);

	if (!w)
		return;
	w->speaks_3_0 = true;
	w->server = NULL;
	connect_to(w);
}

static void closed(struct server *server, const char *reason)
{
	server_leave(server, reason);
}

static enum step logged_in(struct server *server, uint8_t status)
{
	struct watched_host *w = host_of(server);

	(void)status;
	dial_free(server);
	conn_set_deadline(&server->conn, 0);
	conn_hand_on(&server->conn, &monitor_ops);
	if (!w) {
		conn_doom_quietly(&server->conn, "the monitor does not need it");
		return STEP_CLOSE;
	}
	host_watch_connected(&w->watch, now_of(w->monitor));
	go_on(w);
	return STEP_NEXT;
}

static enum step unexpected(struct server *server, const struct message *m)
{
	return dial_unknown(server, m);
}

static const struct dial_owner monitor_owner = {
    .identity = identity_of,
    .log_level = log_level,
    .failed = failed,
    .refused = refused,
    .retried = retried,
    .ready = logged_in,
    .message = unexpected,
    .closed = closed,
};

/* ---- questions ---- */

/* The timeline of a primary is that of the file that it writes; pg_control_checkpoint()
 * has the old one for a while after a promotion. */
static const char question[] =
    "SELECT pg_catalog.pg_is_in_recovery(), "
    "pg_catalog.current_setting('default_transaction_read_only'), "
    "CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE pg_catalog.substr("
    "pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END, "
    "(CASE WHEN pg_catalog.pg_is_in_recovery() "
    "THEN pg_catalog.pg_last_wal_replay_lsn() "
    "ELSE pg_catalog.pg_current_wal_lsn() END "
    "OPERATOR(pg_catalog.-) '0/0'::pg_catalog.pg_lsn)::pg_catalog.text";
static const char short_question[] =
    "SELECT pg_catalog.pg_is_in_recovery(), "
    "pg_catalog.current_setting('default_transaction_read_only')";

static void ask(struct watched_host *w)
{
	struct buf buf;

	w->has_row = false;
	w->report = (struct host_report){.role = HOST_ROLE_UNKNOWN};
	buf_init(&buf, 0);
	codec_put_query(&buf, w->is_short ? short_question : question);
	conn_send(&w->server->conn, &buf);
	buf_done(&buf);
}

/* The next field of a row as text; "": NULL, or too long. */
static int next_text(struct cursor *c, char *out, size_t size)
{
	const uint8_t *value;
	size_t len;

	if (codec_next_field(c, &value, &len) < 0)
		return -1;
	snprintf(out, size, "%.*s", value && len < size ? (int)len : 0,
	    value ? (const char *)value : "");
	return 0;
}

static void take_row(struct watched_host *w, const struct message *m)
{
	struct host_report *r = &w->report;
	char text[32];
	struct cursor c;
	size_t count;

	cursor_init(&c, message_body(m), message_body_len(m));
	if (codec_read_row_count(&c, &count) < 0 || count < 2 ||
	    next_text(&c, text, sizeof(text)) < 0)
		return;
	r->role = strcmp(text, "t") == 0 ? HOST_STANDBY : HOST_PRIMARY;
	if (next_text(&c, text, sizeof(text)) < 0)
		return;
	r->is_read_only = strcmp(text, "on") == 0;
	w->has_row = true;
	if (count < 4 || next_text(&c, text, sizeof(text)) < 0)
		return;
	r->timeline = (uint32_t)strtoul(text, NULL, 16);
	if (next_text(&c, text, sizeof(text)) == 0)
		r->position = strtoull(text, NULL, 10);
}

/* The long question may use what an old server lacks, or what the user may not. */
static void take_error(struct watched_host *w, const struct message *m)
{
	struct error_fields f;

	codec_read_error(message_body(m), message_body_len(m), &f);
	snprintf(w->unasked, sizeof(w->unasked), "%s cannot be asked for: %s",
	    w->is_short ? "the role" : "timeline and lag",
	    *f.message ? f.message : "no reason given");
}

static void finish(struct watched_host *w)
{
	if (w->has_row) {
		host_watch_answered(&w->watch, &w->report,
		    w->is_short ? w->unasked : "", now_of(w->monitor));
		w->is_noted = true;
		go_on(w);
		return;
	}
	if (!w->is_short) {
		w->is_short = true;
		ask(w);
		return;
	}
	/* what it has reported by itself */
	server_role_read(w->server, &w->server->vars, &w->report);
	host_watch_answered(&w->watch, &w->report,
	    w->report.role == HOST_ROLE_UNKNOWN ? w->unasked : "", now_of(w->monitor));
	w->is_noted = true;
	go_on(w);
}

/* Servers since PostgreSQL 14 report a change of their role: it is asked at once. */
static enum step take_parameter(struct watched_host *w, const struct message *m)
{
	if (server_note_parameter(w->server, m, NULL, NULL) < 0)
		return STEP_CLOSE;
	if (!server_role_is_named(m))
		return STEP_NEXT;
	host_watch_hint(&w->watch);
	go_on(w);
	return STEP_NEXT;
}

static enum step on_message(struct conn *conn, const struct message *m)
{
	struct watched_host *w = host_of(conn_server(conn));

	if (!message_is_whole(m) && m->size <= LOGIN_MESSAGE_MAX)
		return STEP_MORE;
	if (!w || m->size > LOGIN_MESSAGE_MAX) {
		conn_doom_quietly(conn, "unexpected message");
		return STEP_CLOSE;
	}
	if (m->type == 'S')
		return take_parameter(w, m);
	if (m->type == 'D')
		take_row(w, m);
	else if (m->type == 'E')
		take_error(w, m);
	else if (m->type == 'Z' && w->watch.phase == WATCH_ASKING)
		finish(w);
	return STEP_NEXT;
}

static void lose(struct conn *conn, const char *why)
{
	struct watched_host *w = host_of(conn_server(conn));

	conn_doom_quietly(conn, why);
	if (!w)
		return;
	w->server = NULL;
	host_watch_failed(&w->watch, WATCH_LOST, why, now_of(w->monitor));
	go_on(w);
}

static void on_ended(struct conn *conn, const struct err *err)
{
	lose(conn, err ? err->text : "the server closed the connection");
}

static void on_malformed(struct conn *conn, const uint8_t *bytes, size_t have)
{
	(void)bytes;
	(void)have;
	lose(conn, error_text(ERROR_SERVER_BAD_HEADER));
}

static void on_closed(struct conn *conn, const char *reason)
{
	server_leave(conn_server(conn), reason);
}

static const struct conn_ops monitor_ops = {
    .name = "monitor",
    .message = on_message,
    .malformed = on_malformed,
    .ended = on_ended,
    .closed = on_closed,
};

/* ---- the steps of a watch ---- */

static void drop_connection(struct watched_host *w)
{
	if (w->server)
		conn_doom_quietly(&w->server->conn, "the monitor closes it");
	w->server = NULL;
}

static void tell_change(struct watched_host *w)
{
	const struct host_value *v = &w->watch.value;
	const struct host_verdict shown = {.value = *v, .is_fit = true};
	enum log_level level = v->state == HOST_UP ? LEVEL_LOG : LEVEL_WARNING;
	char now[sizeof(w->told)];
	struct buf name;

	snprintf(now, sizeof(now), "%s%s%s", host_group_state_shown(&shown),
	    *v->reason ? ": " : "", v->reason);
	if (v->state == HOST_NOT_TRIED || strcmp(now, w->told) == 0)
		return;
	/* that a host is up when it is tried first is no news */
	bool is_news = *w->told || v->state != HOST_UP;
	memcpy(w->told, now, sizeof(now));
	if (!is_news)
		return;
	buf_init(&name, 0);
	host_name(&w->watch, &name);
	log_put(w->monitor->site->log, (unsigned)level | KIND_SERVERS, NULL,
	    "host %s: %s", buf_text(&name), now);
	buf_done(&name);
}

static void arm(struct host_monitor *m, uint64_t at_us)
{
	if (at_us < m->wake.at_us)
		deadline_set(m->site->loop, &m->wake, at_us);
}

/* Does what the watch says, until there is nothing to do now. */
static void go_on(struct watched_host *w)
{
	struct host_monitor *m = w->monitor;
	uint64_t wake_us = UINT64_MAX;
	enum watch_step step;

	while ((step = host_watch_next(&w->watch, &w->policy, now_of(m), &wake_us)) !=
	       WATCH_NOTHING) {
		if (step == WATCH_CLOSE)
			drop_connection(w);
		else if (step == WATCH_ASK)
			ask(w);
		else
			connect_to(w);
	}
	arm(m, wake_us);
	if (host_watch_take_change(&w->watch)) {
		tell_change(w);
		w->is_noted = true;
	}
	if (w->is_noted)
		loop_later(m->site->loop, &m->decision);
}

/* ---- verdicts ---- */

/* Verdicts for a database, as an order for every site. */
struct verdicts {
	size_t count, name_at; /* of the name, behind the verdicts */
	struct host_verdict list[];
};

static void follow(struct site *site, const void *what)
{
	const struct verdicts *v = what;
	const char *name = (const char *)v->list + v->name_at;
	struct database *db = catalog_find_database(site->catalog, name);

	if (db)
		hosts_follow(db, v->list, v->count, loop_now(site->loop));
}

static void spread(struct host_monitor *m, struct watched_database *d)
{
	size_t list_size = d->group.count * sizeof(struct host_verdict);
	size_t size = sizeof(struct verdicts) + list_size + strlen(d->name) + 1;
	struct verdicts *v = mem_zero(size);

	v->count = d->group.count;
	v->name_at = list_size;
	for (size_t i = 0; i < v->count; i++)
		v->list[i] = d->group.members[i].verdict;
	strcpy((char *)v->list + list_size, d->name);
	d->wants_verdicts = false;
	crew_order(m->site, follow, v, size);
	mem_free(v);
}

static const char *service_shown(const struct host_group *g)
{
	return g->rules.target == TARGET_ANY
		   ? "served"
		   : setting_target_name((int)g->rules.target);
}

static void tell_service(const struct host_monitor *m, const struct watched_database *d,
    const struct host_change *change)
{
	const struct host_group *g = &d->group;
	struct buf places;

	if (change->is_split)
		log_put(m->site->log, LEVEL_WARNING | KIND_SERVERS, NULL,
		    "database \"%s\" has two primaries that are up; see SHOW HOSTS",
		    d->name);
	if (change->is_lost)
		log_put(m->site->log, LEVEL_WARNING | KIND_SERVERS, NULL,
		    "no host of database \"%s\" is %s now", d->name, service_shown(g));
	if (!change->is_back)
		return;
	buf_init(&places, 0);
	for (size_t i = 0; i < g->count; i++) {
		if (!host_group_serves(&g->members[i].verdict))
			continue;
		if (places.len)
			buf_put_text(&places, ", ");
		host_name(g->members[i].watch, &places);
	}
	log_put(m->site->log, LEVEL_LOG | KIND_SERVERS, NULL,
	    "database \"%s\" is %s at %s after %.3f s", d->name, service_shown(g),
	    buf_text(&places), (double)change->lacked_us / 1e6);
	buf_done(&places);
}

/* The host that an administrator has chosen with SWITCHOVER. */
static struct host_watch *chosen_of(
    const struct host_monitor *m, const struct watched_database *d)
{
	struct database *db = catalog_find_database(m->site->catalog, d->name);
	const struct host *host = db ? db->hosts.elected : NULL;

	for (size_t i = 0; host && i < d->group.count; i++) {
		struct host_watch *w = d->group.members[i].watch;
		bool is_same = host->name && w->name ? strcmp(host->name, w->name) == 0
						     : host->name == w->name;
		if (is_same && host->port == w->port)
			return w;
	}
	return NULL;
}

static bool has_noted(const struct watched_database *d)
{
	for (size_t i = 0; i < d->group.count; i++)
		if (d->hosts[i]->is_noted)
			return true;
	return false;
}

static void decide(struct host_monitor *m, struct watched_database *d)
{
	struct host_group *g = &d->group;
	struct host_change change;
	bool is_asked = m->was_hinted && has_noted(d);

	for (size_t i = 0; i < g->count; i++)
		if (d->hosts[i]->is_noted)
			host_group_note(g, g->members[i].watch);
	host_group_choose(g, chosen_of(m, d));
	d->wake_us = UINT64_MAX;
	host_group_decide(g, now_of(m), &change, &d->wake_us);
	arm(m, d->wake_us);
	tell_service(m, d, &change);
	if (change.is_any || is_asked || d->wants_verdicts)
		spread(m, d);
}

static void set_policies(struct host_monitor *m)
{
	struct watched_database *d;
	struct watched_host *w;

	list_for (w, &m->hosts, node)
		w->policy = (struct host_policy){.is_wanted = false};
	list_for (d, &m->databases, node) {
		struct database *db = catalog_find_database(m->site->catalog, d->name);
		if (!d->is_wanted || !db)
			continue;
		struct scope scope = scope_of_database(db);
		uint64_t period_us = scope_role_check_period(scope);
		uint64_t hung_us =
		    d->group.count > 1 ? scope_host_hung_timeout(scope) : 0;
		/* so that a host that hangs is noticed a second later at most */
		if (d->is_busy && hung_us && (!period_us || period_us > SURVEY_US))
			period_us = SURVEY_US;
		for (size_t i = 0; i < d->group.count; i++) {
			struct host_policy *p = &d->hosts[i]->policy;
			if (period_us && (!p->period_us || !p->is_wanted ||
					     period_us < p->period_us))
				p->period_us = period_us;
			if (hung_us && (!p->hung_us || hung_us < p->hung_us))
				p->hung_us = hung_us;
			p->is_urgent |= !d->group.serves || db->is_switching;
			p->is_wanted = true;
		}
	}
}

static void decide_all(struct later *l)
{
	struct host_monitor *m = container_of(l, struct host_monitor, decision);
	struct watched_database *d;
	struct watched_host *w;

	list_for (d, &m->databases, node) {
		if (d->is_wanted)
			decide(m, d);
	}
	list_for (w, &m->hosts, node) {
		if (w->is_noted)
			m->was_hinted = false;
		w->is_noted = false;
	}
	set_policies(m);
	list_for (w, &m->hosts, node)
		go_on(w);
}

static void wake(struct deadline *due)
{
	struct host_monitor *m = container_of(due, struct host_monitor, wake);
	struct watched_host *w;

	list_for (w, &m->hosts, node)
		go_on(w);
	loop_later(m->site->loop, &m->decision);
}

/* ---- which databases need it ---- */

static struct watched_host *watched_host(
    struct host_monitor *m, const char *name, int port)
{
	struct watched_host *w;

	list_for (w, &m->hosts, node) {
		bool is_same = name && w->watch.name ? strcmp(name, w->watch.name) == 0
						     : name == w->watch.name;
		if (is_same && w->watch.port == port)
			return w;
	}
	w = mem_zero(sizeof(*w));
	w->monitor = m;
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

/* Takes over the hosts and rules of the entry. */
static void adopt_group(
    struct host_monitor *m, struct watched_database *d, const struct database *db)
{
	const struct database_config *config = db->config;
	struct scope scope = scope_of_database(db);
	const struct host_group_rules rules = {
	    .target = (enum target_attrs)scope_target_session_attrs(scope)};
	struct host_watch **watches =
	    mem_alloc(config->host_count * sizeof(struct host_watch *));

	mem_free(d->hosts);
	d->hosts = mem_alloc(config->host_count * sizeof(struct watched_host *));
	for (size_t i = 0; i < config->host_count; i++) {
		d->hosts[i] =
		    watched_host(m, config->hosts[i].host, config->hosts[i].port);
		watches[i] = &d->hosts[i]->watch;
	}
	host_group_adopt(&d->group, &rules, watches, config->host_count);
	mem_free(watches);
}

static bool is_same_login(const struct watched_host *w, const struct database *db,
    const struct pool *pool, const struct secret *secret)
{
	if (w->database != db || !w->user || strcmp(w->user, pool->user->name) != 0 ||
	    !secret_is_equal(&w->secret, secret))
		return false;
	return w->has_keys == pool->has_pass_through &&
	       (!w->has_keys ||
		   memcmp(&w->keys, &pool->pass_through, sizeof(w->keys)) == 0);
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
	mem_wipe(&w->cache, sizeof(w->cache));
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

/* From now on the monitor logs in at this host as the pool does.  db: of the control
 * site. */
static void take_login(
    struct watched_host *w, struct database *db, const struct pool *pool)
{
	const struct secret *secret = pool_server_secret(pool);

	if (is_same_login(w, db, pool, secret) || is_login_needed(w, db))
		return;
	/* a login that works stays as it is while its database is wanted */
	if (w->server && w->watch.phase >= WATCH_RESTING && w->database == db)
		return;
	drop_connection(w);
	forget_login(w);
	database_hold(db);
	w->database = db;
	w->user = mem_strdup(pool->user->name);
	secret_done(&w->secret);
	secret_init(&w->secret, secret->kind == SECRET_NONE ? NULL : secret->text);
	w->has_keys = pool->has_pass_through;
	if (w->has_keys)
		w->keys = pool->pass_through;
	w->is_short = false;
	host_watch_renew(&w->watch);
}

/* A pool of the database that has clients; *is_busy: some client has a server, or waits
 * for one. */
static const struct pool *pool_in_use(const struct database *db, bool *is_busy)
{
	const struct pool *pool, *found = NULL;

	list_for (pool, &db->pools, db_node) {
		bool has_clients =
		    !list_is_empty(&pool->clients) || !list_is_empty(&pool->waiting);
		if (has_clients)
			found = pool;
		*is_busy |= !list_is_empty(&pool->waiting) ||
			    pool->seats[SEAT_ACTIVE].count > 0;
	}
	return found;
}

static void survey_database(struct host_monitor *m, const struct database *db)
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
	host_group_begin(&d->group, now_of(m));
	d->is_busy |= is_busy || db->is_switching;
	d->wants_verdicts |= !hosts_are_judged(db);
	own = catalog_find_database(m->site->catalog, db->name);
	for (size_t i = 0; pool && own && i < d->group.count; i++)
		if (!d->hosts[i]->policy.is_wanted) {
			take_login(d->hosts[i], own, pool);
			/* only one pool for each survey */
			d->hosts[i]->policy.is_wanted = true;
		}
}

static void survey_site(struct site *site, void *ctx)
{
	const struct database *db;

	list_for (db, &site->catalog->database_list, node) {
		if (hosts_are_watched(db))
			survey_database(ctx, db);
	}
}

static void survey(struct host_monitor *m)
{
	struct watched_database *d;
	struct watched_host *w;

	list_for (d, &m->databases, node) {
		d->was_wanted = d->is_wanted;
		d->is_wanted = d->is_busy = false;
	}
	list_for (w, &m->hosts, node)
		w->policy.is_wanted = false;
	(void)crew_each(m->site, survey_site, m);
	set_policies(m);
	list_for (w, &m->hosts, node) {
		if (!w->policy.is_wanted && w->database) {
			go_on(w);
			forget_login(w);
		}
	}
	loop_later(m->site->loop, &m->decision);
	deadline_set(m->site->loop, &m->survey_due, now_of(m) + SURVEY_US);
}

static void survey_due(struct deadline *due)
{
	struct host_monitor *m = container_of(due, struct host_monitor, survey_due);

	survey(m);
}

/* ---- from outside ---- */

static bool may_be_needed(const struct catalog *c)
{
	const struct database *db;

	if (c->template && c->template->host_count > 1)
		return true;
	list_for (db, &c->database_list, node) {
		if (hosts_are_watched(db))
			return true;
	}
	return false;
}

void host_monitor_review(struct site *site)
{
	struct host_monitor *m = site->host_monitor;

	if (!m)
		return;
	m->is_on = may_be_needed(site->catalog);
	if (m->is_on || !list_is_empty(&m->hosts))
		deadline_set(site->loop, &m->survey_due, loop_now(site->loop));
}

static void take_hint(struct host_monitor *m, const struct hint *hint)
{
	struct watched_host *w;

	if (!m)
		return;
	m->was_hinted = true;
	list_for (w, &m->hosts, node)
		host_watch_hint(&w->watch);
	if (hint->report.role != HOST_ROLE_UNKNOWN) {
		w = watched_host(m, hint->has_name ? hint->name : NULL, hint->port);
		host_watch_heard(&w->watch, &hint->report, now_of(m));
		w->is_noted = true;
	}
	deadline_set(m->site->loop, &m->survey_due, now_of(m));
}

static void hint_opened(struct letter *letter)
{
	struct hint *hint = container_of(letter, struct hint, letter);

	take_hint(hint->control->host_monitor, hint);
	mem_free(hint);
}

void host_monitor_hint(
    struct site *site, const struct host *host, const struct host_report *report)
{
	const char *name = host->name ? host->name : "";
	struct hint *hint = mem_zero(sizeof(*hint) + strlen(name) + 1);

	strcpy(hint->name, name);
	hint->has_name = host->name != NULL;
	hint->port = host->port;
	if (report)
		hint->report = *report;
	if (crew_is_control(site)) {
		take_hint(site->host_monitor, hint);
		mem_free(hint);
		return;
	}
	hint->letter.open = hint_opened;
	hint->control = crew_control(site->crew->crew)->site;
	crew_post(crew_control(site->crew->crew), &hint->letter);
}

void host_monitor_init(struct site *site)
{
	struct host_monitor *m;

	if (!crew_is_control(site))
		return;
	m = mem_zero(sizeof(*m));
	m->site = site;
	list_init(&m->hosts);
	list_init(&m->databases);
	deadline_init(&m->survey_due, survey_due);
	deadline_init(&m->wake, wake);
	m->decision.run = decide_all;
	site->host_monitor = m;
}

static void host_free(struct watched_host *w)
{
	drop_connection(w);
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

void host_monitor_end(struct site *site)
{
	struct host_monitor *m = site->host_monitor;
	struct node *first;

	if (!m)
		return;
	deadline_clear(site->loop, &m->survey_due);
	deadline_clear(site->loop, &m->wake);
	later_cancel(site->loop, &m->decision);
	while ((first = list_first(&m->databases)))
		database_free(m, container_of(first, struct watched_database, node));
	while ((first = list_first(&m->hosts)))
		host_free(container_of(first, struct watched_host, node));
}

void host_monitor_done(struct site *site)
{
	mem_free(site->host_monitor);
	site->host_monitor = NULL;
}
