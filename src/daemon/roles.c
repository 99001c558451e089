/*
 * Reads roles as an inner client: a site with one database, whose one pool opens one
 * server connection, and the answer to one query.  The list goes to who asked for it.
 */
#include "daemon/roles.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "broker/broker.h"
#include "broker/broker_floor.h"
#include "cancel/peers.h"
#include "conf/config.h"
#include "daemon/ending.h"
#include "daemon/process.h"
#include "session/server.h"
#include "session/session.h"
#include "session/tls_setup.h"
#include "wire/codec.h"
#include "wire/message.h"

#define DATABASE "make-userlist"

/* The longest message of the answer, and how long all of it may take. */
enum { ANSWER_MESSAGE_MAX = 1024 * 1024, ANSWER_US = 60 * 1000000 };

/* Nothing in it can be redirected by a search_path. */
static const char query[] =
    "SELECT rolname, rolpassword, CASE WHEN rolvaliduntil OPERATOR(pg_catalog.<) "
    "pg_catalog.now() THEN rolvaliduntil END FROM pg_catalog.pg_authid "
    "WHERE rolcanlogin ORDER BY rolname";

struct reading {
	struct site site;
	struct request request;
	struct server_events watched;          /* the broker's, but for the end */
	const struct server_events *of_broker; /* borrowed */
	struct buf said;                       /* what the log would tell */
	enum roles_answer answer;
	bool is_over;
	/* borrowed */
	struct roles *roles;
	struct err *err;
};

static struct reading *site_reading(struct site *site)
{
	return container_of(site, struct reading, site);
}

/* ---- the list ---- */

static char *text_of(const uint8_t *value, size_t len)
{
	char *text;

	if (!value)
		return NULL;
	text = mem_alloc(len + 1);
	memcpy(text, value, len);
	text[len] = '\0';
	return text;
}

static struct role *roles_add(struct roles *roles)
{
	if (roles->count == roles->room) {
		size_t room = roles->room ? 2 * roles->room : 64;
		struct role *list = mem_zero(room * sizeof(*list));

		if (roles->count)
			memcpy(list, roles->list, roles->count * sizeof(*list));
		mem_free(roles->list);
		roles->list = list;
		roles->room = room;
	}
	return &roles->list[roles->count++];
}

void roles_done(struct roles *roles)
{
	for (size_t i = 0; i < roles->count; i++) {
		mem_free(roles->list[i].name);
		mem_free_secret(roles->list[i].secret);
		mem_free(roles->list[i].expired_at);
	}
	mem_free(roles->list);
	*roles = (struct roles){.list = NULL};
}

/* ---- the end ---- */

static void end(struct reading *r, enum roles_answer answer)
{
	if (r->is_over)
		return;
	r->is_over = true;
	r->answer = answer;
	loop_stop(r->site.loop);
}

/* Where there is more to tell than the reason, it is in what was logged. */
static void fail(struct reading *r, const char *reason)
{
	if (r->is_over)
		return;
	err_set(r->err, "%s", r->said.len ? buf_text(&r->said) : reason);
	end(r, ROLES_FAILED);
}

/* Warnings and errors, each with the address that it is about. */
static void hear(void *ctx, enum log_level level, const char *tag, const char *text)
{
	struct reading *r = ctx;
	const char *at = tag ? strrchr(tag, '@') : NULL;

	if (level > LEVEL_WARNING)
		return;
	/* no address is known yet */
	if (at && at[1] == '(')
		at = NULL;
	buf_printf(&r->said, "%s%s%s%s", r->said.len ? "\n" : "", at ? at + 1 : "",
	    at ? ": " : "", text);
}

/* ---- the answer ---- */

static enum step broken(struct server *server)
{
	server_protocol_error(server, error_text(ERROR_BAD_PACKET));
	return STEP_CLOSE;
}

static enum step take_row(struct server *server, const struct message *m)
{
	struct reading *r = site_reading(server->conn.site);
	const uint8_t *values[3];
	struct cursor c;
	size_t count, lens[3];
	struct role *role;

	cursor_init(&c, message_body(m), message_body_len(m));
	if (codec_read_row_count(&c, &count) < 0 || count != 3)
		return broken(server);
	for (size_t i = 0; i < count; i++)
		if (codec_next_field(&c, &values[i], &lens[i]) < 0)
			return broken(server);
	if (!values[0] || cursor_left(&c))
		return broken(server);
	role = roles_add(r->roles);
	role->name = text_of(values[0], lens[0]);
	role->secret = text_of(values[1], lens[1]);
	role->expired_at = text_of(values[2], lens[2]);
	return STEP_NEXT;
}

static enum step take_error(struct server *server, const struct message *m)
{
	struct reading *r = site_reading(server->conn.site);
	const char *user = server->seat.pool->user->name;
	struct error_fields f;
	struct err text;

	codec_read_error(message_body(m), message_body_len(m), &f);
	if (strcmp(f.sqlstate, SQLSTATE_INSUFFICIENT_PRIVILEGE) == 0)
		err_set(&text,
		    "role \"%s\" may not read pg_authid, where secrets are: log in as "
		    "a "
		    "superuser, or let one run GRANT SELECT ON pg_authid TO \"%s\"; "
		    "where nobody may, use auth_query with a function",
		    user, user);
	else
		err_set(&text, "the server refuses to tell its roles: %s", f.message);
	fail(r, text.text);
	server_retire(server, text.text);
	return STEP_CLOSE;
}

static enum step read_answer(struct server *server, const struct message *m)
{
	switch (m->type) {
	case 'D':
		return take_row(server, m);
	case 'E':
		return take_error(server, m);
	case 'Z':
		server->is_ready = true;
		end(site_reading(server->conn.site), ROLES_READ);
		return STEP_NEXT;
	case 'S':
		return server_note_parameter(server, m, NULL, NULL) < 0 ? STEP_CLOSE
									: STEP_NEXT;
	case 'T':
	case 'C':
	case 'N':
	case 'A':
		return STEP_NEXT;
	}
	return broken(server);
}

static enum step answer_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	uint8_t status = 0;

	if (m->size > ANSWER_MESSAGE_MAX)
		return broken(server);
	if (!message_is_whole(m))
		return STEP_MORE;
	if (m->type == 'Z' &&
	    codec_read_ready(message_body(m), message_body_len(m), &status) < 0)
		return broken(server);
	if (pipeline_answer(&server->pipeline, m->type, status, NULL) == ANSWER_BROKEN)
		return broken(server);
	return read_answer(server, m);
}

static void answer_expired(struct conn *conn)
{
	server_retire(conn_server(conn), "the server does not answer");
}

static void answer_closed(struct conn *conn, const char *reason)
{
	fail(site_reading(conn->site), reason);
	server_leave(conn_server(conn), reason);
}

static const struct conn_ops answer_ops = {
    .name = "reading roles",
    .message = answer_message,
    .expired = answer_expired,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = answer_closed,
    .has_secrets = true,
};

/* ---- the way to it ---- */

static void granted(struct request *request)
{
	struct server *server = seat_server(request->ask.seat);

	conn_hand_on(&server->conn, &answer_ops);
	conn_set_deadline(&server->conn, conn_now(&server->conn) + ANSWER_US);
	server_query(server, query);
}

static void refused(struct request *request, const char *sqlstate, const char *text)
{
	struct reading *r = container_of(request, struct reading, request);

	(void)sqlstate;
	if (strcmp(text, error_text(ERROR_WRONG_PASSWORD_TYPE)) == 0 &&
	    pool_server_secret(request->ask.pool)->kind == SECRET_NONE)
		end(r, ROLES_PASSWORD_WANTED);
	else
		fail(r, text);
}

static void killed(struct request *request, const char *reason)
{
	fail(container_of(request, struct reading, request), reason);
}

static const struct request_ops roles_request_ops = {
    .granted = granted,
    .refused = refused,
    .killed = killed,
};

/* A pool would try again after a while, because clients wait.  Here nobody has the
 * time. */
static void on_gone(struct server *server, const char *reason)
{
	struct site *site = server->conn.site;
	struct reading *r = site_reading(site);

	r->of_broker->gone(server, reason);
	if (r->request.ask.state == ASK_WAITING &&
	    r->request.ask.pool->last_connect_failed &&
	    !r->request.ask.pool->has_refused)
		fail(r, reason);
}

static void ask(struct reading *r)
{
	struct catalog *catalog = r->site.catalog;
	struct database *db = catalog_find_database(catalog, DATABASE);
	const char *sqlstate, *text;

	r->request.ops = &roles_request_ops;
	pool_join(catalog_pool_as(db, db->forced_user), &r->request.ask);
	r->request.ask.query_us = loop_now(r->site.loop);
	switch (broker_ask(&r->request, ASK_AUTH, &sqlstate, &text)) {
	case BROKER_GRANTED:
		granted(&r->request);
		break;
	case BROKER_REFUSED:
	case BROKER_FULL:
		fail(r, text);
		break;
	case BROKER_WAIT:
		break;
	}
}

/* ---- a site for it ---- */

static void note_nothing(void *ctx, const char *text)
{
	(void)ctx;
	(void)text;
}

static int build(struct reading *r, struct config *config, struct err *err)
{
	struct site *site = &r->site;
	int rc;

	site->loop = loop_new(&site->mem, err);
	if (!site->loop)
		return -1;
	net_init(&site->net, site->loop, &site->mem);
	site->tls = tls_setup_new(config, err);
	if (!site->tls)
		return -1;
	site->dns = dns_new(site->loop, config->settings.resolv_conf, err);
	if (!site->dns)
		return -1;
	site->vars = vars_schema_new("");
	site->catalog = catalog_new(&site->mem);
	/* Even if it fails the others are made, for take_apart frees them all. */
	rc = session_init(site, err);
	broker_floor_init(site);
	peers_init(site);
	r->of_broker = site->server_events;
	r->watched = *r->of_broker;
	r->watched.gone = on_gone;
	site->server_events = &r->watched;
	catalog_adopt(site->catalog, config, NULL, note_nothing, NULL);
	return rc;
}

static void take_apart(struct reading *r)
{
	struct site *site = &r->site;

	if (site->catalog) {
		/* whoever cannot be closed now is closed by the system */
		if (ending_drop_all(site) < 0)
			return;
		if (r->request.ask.pool)
			pool_part(&r->request.ask);
		catalog_free(&site->catalog);
		session_done(site);
		peers_done(site);
		broker_floor_done(site);
	}
	vars_schema_free(&site->vars);
	tls_setup_unref(&site->tls);
	dns_free(&site->dns);
	if (site->loop)
		net_done(&site->net);
	loop_free(&site->loop);
}

static void start_log(struct reading *r, int verbose)
{
	struct log_config config = {.file = NULL};

	r->site.log = log_new();
	log_levels_set_all(&config.levels, verbose);
	log_configure(r->site.log, &config);
	if (!verbose)
		log_divert(r->site.log, hear, r);
}

enum roles_answer roles_read(
    struct roles *roles, const char *entry, int verbose, struct err *err)
{
	struct reading r = {.roles = roles, .err = err, .answer = ROLES_FAILED};
	struct config *config = config_of_database(DATABASE, entry, err);

	if (!config)
		return ROLES_FAILED;
	buf_init(&r.said, 0);
	mem_init(&r.site.mem);
	start_log(&r, verbose);
	process_ignore_sigpipe();
	if (build(&r, config, err) == 0) {
		ask(&r);
		if (!r.is_over)
			loop_run(r.site.loop);
	}
	take_apart(&r);
	config_unref(&config);
	log_free(&r.site.log);
	buf_done(&r.said);
	return r.answer;
}
