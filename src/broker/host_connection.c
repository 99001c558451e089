#include "broker/host_connection.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/dial_exchange.h"
#include "broker/dial_password.h"
#include "pool/scopes.h"
#include "session/server_role.h"
#include "wire/codec.h"

static const struct dial_owner monitor_owner;
static const struct conn_ops monitor_ops;

static uint64_t now_of(const struct watched_host *w)
{
	return loop_now(w->site->loop);
}

/* ---- logins ---- */

/* NULL: the monitor does not need the connection any more. */
static struct watched_host *host_of(const struct server *server)
{
	struct watched_host *w;

	list_for (w, server->conn.site->watched_hosts, node) {
		if (w->server == server)
			return w;
	}
	return NULL;
}

static struct dial_identity identity_of(const struct server *server)
{
	struct watched_host *w = host_of(server);

	/* an attempt that the monitor has given up does not go on */
	assert(w);
	const struct user *user = catalog_find_user(w->database->catalog, w->user);
	return (struct dial_identity){
	    .db = w->database->config,
	    .scope = scope_of_login(w->database, user),
	    .user = w->user,
	    .secret = &w->secret,
	    .source = password_source_of(w->database, user),
	    .pass_through = w->has_keys ? &w->keys : NULL,
	    .cache = &w->cache,
	    .lane = w->database->name,
	    .speaks_3_0 = &w->speaks_3_0,
	};
}

static void put_params(const struct server *server, struct buf *buf)
{
	(void)server;
	codec_put_param(buf, "application_name", "pgbouncer monitor");
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
	enum watch_failure answered =
	    w && w->is_own_user ? WATCH_UNASKABLE : WATCH_REFUSED;

	(void)sqlstate;
	if (!w)
		return;
	w->server = NULL;
	host_watch_failed(&w->watch, is_network ? WATCH_LOST : answered,
	    is_network && *w->why ? w->why : text, now_of(w));
	w->go_on(w);
}

static void refused(struct server *server, const struct error_fields *f)
{
	dial_fail(server, DIAL_LOGIN, f->message, f->sqlstate, f->message);
}

void host_connection_open(struct watched_host *w)
{
	w->why[0] = '\0';
	if (!w->database) {
		host_watch_failed(&w->watch, WATCH_NO_LOGIN,
		    "no user of its databases is known", now_of(w));
		return;
	}
	w->server = dial_new(w->site, &monitor_owner);
	dial_aim(w->server, w->watch.name, w->watch.port);
	dial_password_get(w->server, dial_go);
}

static void retried(struct server *server)
{
	struct watched_host *w = host_of(server);

	if (!w)
		return;
	w->server = NULL;
	host_connection_open(w);
}

/* Also one that was closed for want of memory, of which nobody has told before. */
static void closed(struct server *server, const char *reason)
{
	struct watched_host *w = host_of(server);

	if (w) {
		w->server = NULL;
		host_watch_failed(&w->watch, WATCH_LOST, reason, now_of(w));
		w->go_on(w);
	}
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
	w->is_short = false;
	host_watch_connected(&w->watch, now_of(w));
	w->go_on(w);
	return STEP_NEXT;
}

static enum step unexpected(struct server *server, const struct message *m)
{
	return dial_unknown(server, m);
}

static const struct dial_owner monitor_owner = {
    .is_quiet = true,
    .identity = identity_of,
    .put_params = put_params,
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

void host_connection_ask(struct watched_host *w)
{
	struct buf buf;

	w->has_row = false;
	w->is_impossible = false;
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

static void finish(struct watched_host *w)
{
	const char *unasked = w->is_short ? w->unasked : "";

	if (!w->has_row && !w->is_short && w->is_impossible) {
		w->is_short = true;
		host_connection_ask(w);
		return;
	}
	if (!w->has_row) {
		/* what it has reported by itself */
		const struct host_report *before = &w->watch.value.report;
		server_role_read(w->server, &w->server->vars, &w->report);
		if (w->report.role == before->role)
			w->report.timeline = before->timeline;
		unasked = w->unasked;
	}
	host_watch_answered(&w->watch, &w->report, unasked, now_of(w));
	w->is_noted = true;
	w->go_on(w);
}

static void lose(struct conn *conn, const char *why)
{
	struct watched_host *w = host_of(conn_server(conn));

	conn_doom_quietly(conn, why);
	if (!w)
		return;
	w->server = NULL;
	host_watch_failed(&w->watch, WATCH_LOST, why, now_of(w));
	w->go_on(w);
}

static enum step on_message(struct conn *conn, const struct message *m)
{
	struct watched_host *w = host_of(conn_server(conn));
	struct error_fields f;

	if (!message_is_whole(m) && m->size <= LOGIN_MESSAGE_MAX)
		return STEP_MORE;
	if (!w || m->size > LOGIN_MESSAGE_MAX) {
		lose(conn, w ? "the answer to the monitor's question is too long"
			     : "the monitor does not need it");
		return STEP_CLOSE;
	}
	if (m->type == 'S') {
		/* servers since PostgreSQL 14 report a change of their role: it is
		 * asked at once */
		if (server_note_parameter(w->server, m, NULL, NULL) < 0) {
			lose(&w->server->conn, error_text(ERROR_SERVER_BAD_PARAMETER));
			return STEP_CLOSE;
		}
		if (!server_role_is_named(m))
			return STEP_NEXT;
		host_watch_hint(&w->watch);
		w->go_on(w);
		return STEP_NEXT;
	}
	if (m->type == 'D')
		take_row(w, m);
	else if (m->type == 'E') {
		codec_read_error(message_body(m), message_body_len(m), &f);
		/* class 42: the long question calls a function that an old server
		 * lacks, or that this user may not call */
		w->is_impossible = f.sqlstate && strncmp(f.sqlstate, "42", 2) == 0;
		snprintf(w->unasked, sizeof(w->unasked), "%s cannot be asked for: %s",
		    w->is_short ? "the role" : "timeline and lag",
		    *f.message ? f.message : "no reason given");
	} else if (m->type == 'Z' && w->watch.phase == WATCH_ASKING)
		finish(w);
	return STEP_NEXT;
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
	closed(conn_server(conn), reason);
}

static const struct conn_ops monitor_ops = {
    .name = "monitor",
    .message = on_message,
    .malformed = on_malformed,
    .ended = on_ended,
    .closed = on_closed,
};

void host_connection_close(struct watched_host *w)
{
	if (w->server)
		conn_doom_quietly(&w->server->conn, "the monitor closes it");
	w->server = NULL;
}
