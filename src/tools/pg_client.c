/*
 * Uses the pooler's own code to connect: a site with one database, whose only pool
 * opens one server connection.  Queries are sent over it one after the other.
 */
#include "tools/pg_client.h"

#include <stdio.h>
#include <string.h>

#include "broker/broker.h"
#include "cancel/peers.h"
#include "conf/config.h"
#include "daemon/process.h"
#include "daemon/site_build.h"
#include "session/server.h"
#include "session/session.h"
#include "session/tls_setup.h"
#include "wire/codec.h"

#define DATABASE "pg_client"

/* The limits of an answer: the size of a message, and the time for all of it. */
enum { ANSWER_MESSAGE_MAX = 1024 * 1024, ANSWER_US = 60 * 1000000 };

struct pg_client {
	struct site site;
	struct request request;
	/* the broker's functions, except for the end of a server */
	struct server_events watched;
	const struct server_events *of_broker; /* borrowed */
	struct buf said; /* errors and warnings that were logged */
	enum pg_client_answer answer;
	bool is_over, is_asked;
	/* borrowed */
	const char *query; /* of pg_client_query; NULL: the owner asks */
	const struct pg_client_ops *ops;
	void *ctx;
	struct server *server; /* NULL: not granted yet, or closed */
	struct err *err;
};

static struct pg_client *site_pg_client(struct site *site)
{
	return container_of(site, struct pg_client, site);
}

/* ---- the end ---- */

static void end(struct pg_client *r, enum pg_client_answer answer)
{
	if (r->is_over)
		return;
	r->is_over = true;
	r->answer = answer;
	loop_stop(r->site.loop);
}

/* The server waits for a query. */
static void become_ready(struct pg_client *r)
{
	if (!r->query)
		r->ops->ready(r->ctx);
	else if (r->is_asked)
		end(r, PG_CLIENT_DONE);
	else
		pg_client_ask(r, r->query);
	r->is_asked = true;
}

/* The lines that were logged say more than the reason, if there are any. */
static void fail(struct pg_client *r, const char *reason)
{
	if (r->is_over)
		return;
	err_set(r->err, "%s", r->said.len ? buf_text(&r->said) : reason);
	end(r, PG_CLIENT_FAILED);
}

/* Receives log lines: keeps warnings and errors, each with the address that it is
 * about. */
static void keep_log_line(
    void *ctx, enum log_level level, const char *tag, const char *text)
{
	struct pg_client *r = ctx;
	const char *at = tag ? strrchr(tag, '@') : NULL;

	if (level > LEVEL_WARNING)
		return;
	/* the address is not known yet */
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
	struct pg_client *r = site_pg_client(server->conn.site);
	struct pg_client_row row = {.count = 0};
	struct cursor c;

	cursor_init(&c, message_body(m), message_body_len(m));
	if (codec_read_row_count(&c, &row.count) < 0 || row.count > PG_CLIENT_COLUMNS)
		return broken(server);
	for (size_t i = 0; i < row.count; i++)
		if (codec_next_field(&c, &row.values[i], &row.lens[i]) < 0)
			return broken(server);
	if (cursor_left(&c) || r->ops->row(r->ctx, &row) < 0)
		return broken(server);
	return STEP_NEXT;
}

static enum step take_error(struct server *server, const struct message *m)
{
	struct pg_client *r = site_pg_client(server->conn.site);
	struct error_fields f;
	struct err text;

	codec_read_error(message_body(m), message_body_len(m), &f);
	if (r->ops->error(r->ctx, server->slot.pool->user->name, &f, &text) == 0)
		return STEP_NEXT;
	fail(r, text.text);
	server_retire(server, text.text);
	return STEP_CLOSE;
}

/* Passes on the names of the columns in the form of a row. */
static enum step take_columns(struct server *server, const struct message *m)
{
	struct pg_client *r = site_pg_client(server->conn.site);
	struct pg_client_row row = {.count = 0};
	struct cursor c;
	uint16_t count;

	cursor_init(&c, message_body(m), message_body_len(m));
	count = cursor_u16(&c);
	if (count > PG_CLIENT_COLUMNS)
		return broken(server);
	for (; row.count < count; row.count++) {
		const char *name = cursor_str(&c);
		row.values[row.count] = (const uint8_t *)name;
		row.lens[row.count] = strlen(name);
		(void)cursor_bytes(&c, 18); /* table, column, type, size, format */
	}
	if (c.overrun || (r->ops->columns && r->ops->columns(r->ctx, &row) < 0))
		return broken(server);
	return STEP_NEXT;
}

static enum step read_answer(struct server *server, const struct message *m)
{
	struct pg_client *r = site_pg_client(server->conn.site);

	switch (m->type) {
	case 'D':
		return take_row(server, m);
	case 'E':
		return take_error(server, m);
	case 'Z':
		server->is_ready = true;
		conn_set_deadline(&server->conn, 0);
		become_ready(r);
		return STEP_NEXT;
	case 'S':
		return server_note_parameter(server, m, NULL, NULL) < 0 ? STEP_CLOSE
									: STEP_NEXT;
	case 'T':
		return take_columns(server, m);
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
	site_pg_client(conn->site)->server = NULL;
	fail(site_pg_client(conn->site), reason);
	server_leave(conn_server(conn), reason);
}

static const struct conn_ops answer_ops = {
    .name = "pg_client",
    .message = answer_message,
    .expired = answer_expired,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = answer_closed,
    .has_secrets = true,
};

/* ---- connecting ---- */

static void granted(struct request *request)
{
	struct server *server = slot_server(request->in_pool.slot);

	struct pg_client *r = container_of(request, struct pg_client, request);

	conn_hand_on(&server->conn, &answer_ops);
	r->server = server;
	become_ready(r);
}

static void refused(struct request *request, const char *sqlstate, const char *text)
{
	struct pg_client *r = container_of(request, struct pg_client, request);

	(void)sqlstate;
	if (strcmp(text, error_text(ERROR_WRONG_PASSWORD_TYPE)) == 0 &&
	    pool_server_secret(request->in_pool.pool)->kind == SECRET_NONE)
		end(r, PG_CLIENT_PASSWORD_WANTED);
	else
		fail(r, text);
}

static void killed(struct request *request, const char *reason)
{
	fail(container_of(request, struct pg_client, request), reason);
}

static const struct request_ops pg_client_request_ops = {
    .granted = granted,
    .refused = refused,
    .killed = killed,
};

/* A pool would connect again after a while.  This client fails at once instead. */
static void on_gone(struct server *server, const char *reason)
{
	struct site *site = server->conn.site;
	struct pg_client *r = site_pg_client(site);

	r->of_broker->gone(server, reason);
	if (r->request.in_pool.state == REQUEST_WAITING &&
	    r->request.in_pool.pool->failure.kind &&
	    !r->request.in_pool.pool->failure.refuses_waiting)
		fail(r, reason);
}

static void ask(struct pg_client *r)
{
	struct catalog *catalog = r->site.catalog;
	struct database *db = catalog_find_database(catalog, DATABASE);
	const char *sqlstate, *text;

	r->request.ops = &pg_client_request_ops;
	pool_join(catalog_pool_as(db, db->forced_user), &r->request.in_pool);
	r->request.in_pool.query_us = loop_now(r->site.loop);
	switch (broker_ask(&r->request, REQUEST_AUTH, &sqlstate, &text)) {
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

static int build(struct pg_client *r, struct config *config, struct err *err)
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
	site->dns = dns_new(site->loop, config->settings.resolv_conf, 0, err);
	if (!site->dns)
		return -1;
	site->vars = vars_schema_new("");
	site->catalog = catalog_new(&site->mem);
	/* the other floors are made even if this fails, because take_apart frees all of
	 * them */
	rc = session_init(site, err);
	broker_init(site);
	peers_init(site);
	r->of_broker = site->server_events;
	r->watched = *r->of_broker;
	r->watched.gone = on_gone;
	site->server_events = &r->watched;
	catalog_adopt(site->catalog, config, NULL, NULL, NULL);
	return rc;
}

static void take_apart(struct pg_client *r)
{
	struct site *site = &r->site;

	if (site->catalog) {
		/* connections that do not close now are closed by the exit */
		if (site_build_drop_all(site) < 0)
			return;
		if (r->request.in_pool.pool)
			pool_part(&r->request.in_pool);
		broker_stop(site);
		catalog_free(&site->catalog);
		session_done(site);
		peers_done(site);
		broker_done(site);
	}
	vars_schema_free(&site->vars);
	tls_setup_unref(&site->tls);
	dns_free(&site->dns);
	if (site->loop)
		net_done(&site->net);
	loop_free(&site->loop);
}

static void start_log(struct pg_client *r, int verbose)
{
	struct log_config config = {.file = NULL};

	r->site.log = log_new();
	log_levels_set_all(&config.levels, verbose);
	log_configure(r->site.log, &config);
	if (!verbose)
		log_divert(r->site.log, keep_log_line, r);
}

struct pg_client *pg_client_new(const char *entry, int verbose,
    const struct pg_client_ops *ops, void *ctx, struct err *err)
{
	struct config *config = config_of_database(DATABASE, entry, err);
	struct pg_client *r;

	if (!config)
		return NULL;
	r = mem_zero(sizeof(*r));
	r->ops = ops;
	r->ctx = ctx;
	r->err = err;
	r->answer = PG_CLIENT_FAILED;
	buf_init(&r->said, 0);
	mem_init(&r->site.mem);
	start_log(r, verbose);
	process_ignore_sigpipe();
	int rc = build(r, config, err);
	config_unref(&config);
	if (rc < 0)
		pg_client_free(&r);
	return r;
}

enum pg_client_answer pg_client_run(struct pg_client *r)
{
	ask(r);
	if (!r->is_over)
		loop_run(r->site.loop);
	return r->answer;
}

enum pg_client_answer pg_client_query(const char *entry, int verbose,
    const struct pg_client_ops *ops, void *ctx, const char *sql, struct err *err)
{
	struct pg_client *r = pg_client_new(entry, verbose, ops, ctx, err);
	enum pg_client_answer answer = PG_CLIENT_FAILED;

	if (r) {
		r->query = sql;
		answer = pg_client_run(r);
	}
	pg_client_free(&r);
	return answer;
}

void pg_client_ask(struct pg_client *r, const char *sql)
{
	struct server *server = r->server;

	if (!server)
		return;
	conn_set_deadline(&server->conn, conn_now(&server->conn) + ANSWER_US);
	server_query(server, sql);
}

void pg_client_end(struct pg_client *r)
{
	end(r, PG_CLIENT_DONE);
}

struct loop *pg_client_loop(struct pg_client *r)
{
	return r->site.loop;
}

void pg_client_free(struct pg_client **rp)
{
	struct pg_client *r = *rp;

	if (!r)
		return;
	*rp = NULL;
	/* the reason that closing reports is not the result */
	r->is_over = true;
	take_apart(r);
	log_free(&r->site.log);
	buf_done(&r->said);
	mem_free(r);
}
