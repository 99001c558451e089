/*
 * The query for one client, its place in the client's pool, and the answers of its
 * server.  The values stay on the server, where the client's first query is likely to
 * find them.
 */
#include "login/spelling.h"

#include <stdio.h>

#include "broker/broker.h"
#include "login/login_state.h"
#include "session/server.h"
#include "wire/codec.h"
#include "wire/message.h"

/* A server whose answer contains a longer message is closed. */
enum { ANSWER_MESSAGE_MAX = 1024 * 1024 };
/* How long the query may continue after its client has left. */
enum { ABANDONED_US = 5 * 1000000 };
/* How many servers may be lost before they answer. */
enum { LOST_MOST = 3 };

enum spelling_state {
	SPELLING_QUEUED, /* no server yet */
	SPELLING_ASKED,
	/* values that equal the server's own are reset, so that the server goes on
	 * following its configuration */
	SPELLING_RESTORED,
	SPELLING_OVER, /* the server has gone back or was lost */
};

struct spelling {
	struct request request;
	struct site *site;
	struct later work;
	struct client *client; /* borrowed; NULL: it has been told, or has left */
	struct vars asked;     /* the client's values */
	uint64_t unknown;      /* bits of those whose spelling is asked for */
	uint64_t reset;        /* bits of those that the running query resets */
	void (*on_spelled)(struct client *client);
	enum spelling_state state;
	unsigned lost_count;
	char *refusal; /* owned: the text of a FATAL error; NULL: none */
	char sqlstate[6];
};

static const struct conn_ops spelling_ops;

static struct spelling *request_spelling(const struct request *request)
{
	return container_of(request, struct spelling, request);
}

static struct spelling *server_spelling(const struct server *server)
{
	return request_spelling(request_of(server->slot.request));
}

static bool is_unknown(const struct spelling *s, size_t i)
{
	return i < EFFECTS_PARAMETERS && (s->unknown >> i & 1);
}

static void spelling_free(struct spelling *s)
{
	struct pool *pool = s->request.in_pool.pool;

	later_cancel(s->site->loop, &s->work);
	pool_part(&s->request.in_pool);
	pool_free_if_unused(pool);
	vars_done(&s->asked);
	mem_free(s->refusal);
	mem_free(s);
}

/* ---- the end ---- */

static void spelling_tell(struct spelling *s)
{
	struct client *client = s->client;

	s->client = NULL;
	client->login->spelling = NULL;
	if (client->conn.is_doomed)
		return;
	if (s->refusal) {
		client_fatal_text(client, s->sqlstate, s->refusal);
		return;
	}
	vars_share(&client->params.vars, &s->asked);
	s->on_spelled(client);
}

static void spelling_ask(struct spelling *s);

static void spelling_work(struct later *l)
{
	struct spelling *s = container_of(l, struct spelling, work);

	if (s->state == SPELLING_QUEUED) {
		spelling_ask(s);
		return;
	}
	if (s->client)
		spelling_tell(s);
	if (s->state == SPELLING_OVER)
		spelling_free(s);
}

/* The client is told later in this turn of the loop. */
static void spelling_answered(struct spelling *s, enum spelling_state state)
{
	s->state = state;
	loop_later(s->site->loop, &s->work);
}

static void spelling_refuse(struct spelling *s, const char *sqlstate, const char *text)
{
	mem_free(s->refusal);
	s->refusal = mem_strdup(text);
	snprintf(s->sqlstate, sizeof(s->sqlstate), "%.5s", sqlstate);
}

/* ---- the server's answers ---- */

/* Takes over what the server reports. */
static void take_reports(struct spelling *s, const struct server *server)
{
	struct pool *pool = s->request.in_pool.pool;

	for (size_t i = 0; i < EFFECTS_PARAMETERS && s->unknown >> i; i++) {
		const char *base, *value;
		if (!is_unknown(s, i))
			continue;
		base = vars_get(&server->own, i);
		value = vars_get(&server->vars, i);
		if (!base || !value)
			continue;
		if (!vars_encoding(&server->vars, i))
			broker_keep_spelling(
			    pool, i, base, vars_get(&s->asked, i), value);
		vars_copy(&s->asked, &server->vars, i);
	}
}

/* Sends a RESET for each value that the server has by itself, too: a SET would hide
 * later changes of its configuration.  False: there is none. */
static bool restore_values(struct spelling *s, struct server *server)
{
	struct buf sql;

	s->reset = 0;
	buf_init(&sql, 0);
	for (size_t i = 0; i < EFFECTS_PARAMETERS && s->unknown >> i; i++) {
		if (!is_unknown(s, i) || (server->pinned >> i & 1) ||
		    !vars_get(&server->own, i) ||
		    !vars_is_same(&server->vars, &server->own, i))
			continue;
		vars_put_reset(s->site->vars, i, &sql);
		buf_put_text(&sql, ";");
		s->reset |= UINT64_C(1) << i;
	}
	if (s->reset)
		server_query(server, buf_text(&sql));
	buf_done(&sql);
	return s->reset;
}

static void give_back(struct server *server)
{
	server->is_ready = true;
	server_rest(server, 0); /* the pool may lend it to others from here on */
	broker_give(server);
}

static enum step answer_ready(struct server *server)
{
	struct spelling *s = server_spelling(server);

	if (server->status != 'I') {
		server_retire(server, "SET has left a transaction open");
		return STEP_CLOSE;
	}
	if (!s->refusal)
		broker_learn_resets(server, s->reset);
	if (s->state == SPELLING_RESTORED) {
		give_back(server);
		spelling_answered(s, SPELLING_OVER);
		return STEP_NEXT;
	}
	if (!s->refusal)
		take_reports(s, server);
	if (!s->refusal && restore_values(s, server)) {
		s->state = SPELLING_RESTORED;
		return STEP_NEXT;
	}
	give_back(server);
	spelling_answered(s, SPELLING_OVER);
	return STEP_NEXT;
}

/* PostgreSQL has undone all the SETs of the query, so the server stays as it was. */
static void answer_error(struct server *server, const struct message *m)
{
	struct spelling *s = server_spelling(server);
	struct error_fields f;

	codec_read_error(message_body(m), message_body_len(m), &f);
	if (server_log_refused_set(server, &f))
		spelling_refuse(
		    s, f.sqlstate, error_text(ERROR_INVALID_SERVER_PARAMETER));
}

static enum step answer_read(struct server *server, const struct message *m)
{
	switch (m->type) {
	case 'S':
		return server_note_parameter(server, m, NULL, NULL) < 0 ? STEP_CLOSE
									: STEP_NEXT;
	case 'E':
		answer_error(server, m);
		return STEP_NEXT;
	case 'Z':
		return answer_ready(server);
	case 'T':
	case 'D':
	case 'C':
	case 'N':
	case 'A':
		return STEP_NEXT;
	}
	server_unexpected(server, m, error_text(ERROR_UNKNOWN_PACKET));
	return STEP_CLOSE;
}

static enum step spelling_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	uint8_t status = 0;

	if (m->size > ANSWER_MESSAGE_MAX) {
		server_unreadable(server, m);
		return STEP_CLOSE;
	}
	if (!message_is_whole(m))
		return STEP_MORE;
	if (m->type == 'Z' &&
	    codec_read_ready(message_body(m), message_body_len(m), &status) < 0) {
		server_unreadable(server, m);
		return STEP_CLOSE;
	}
	server->last_us = conn_now(conn);
	if (pipeline_answer(&server->pipeline, m->type, status, NULL) ==
	    ANSWER_BROKEN) {
		server_unexpected(server, m, error_text(ERROR_UNKNOWN_PACKET));
		return STEP_CLOSE;
	}
	if (m->type == 'Z') {
		server->status = status;
		server->noted = 0;
	}
	return answer_read(server, m);
}

static void spelling_expired(struct conn *conn)
{
	struct server *server = conn_server(conn);
	struct spelling *s = server_spelling(server);

	spelling_refuse(
	    s, error_sqlstate(ERROR_QUERY_TIMEOUT), error_text(ERROR_QUERY_TIMEOUT));
	server_retire(server, error_text(ERROR_QUERY_TIMEOUT));
}

/* The server was lost.  It may have been so for long, at rest: another one is asked. */
static void spelling_closed(struct conn *conn, const char *reason)
{
	struct server *server = conn_server(conn);
	struct spelling *s = server_spelling(server);
	bool was_asked = s->state == SPELLING_ASKED;

	server_leave(server, reason);
	if (!s->client) {
		spelling_free(s);
		return;
	}
	if (was_asked && !s->refusal && ++s->lost_count < LOST_MOST) {
		spelling_answered(s, SPELLING_QUEUED);
		return;
	}
	if (was_asked && !s->refusal)
		spelling_refuse(s, error_sqlstate(error_of_reason(reason)), reason);
	spelling_answered(s, SPELLING_OVER);
}

static const struct conn_ops spelling_ops = {
    .name = "startup values",
    .message = spelling_message,
    .expired = spelling_expired,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = spelling_closed,
};

/* ---- the query ---- */

/* Appends what parameter i needs.  A value that is asked for is set on top of the
 * server's own one, because it may be a part of the parameter: the rest must not come
 * from the server's last client. */
static bool is_put(
    struct spelling *s, const struct server *server, size_t i, struct buf *sql)
{
	if (!client_is_own(s->client, i))
		return server_puts_back(server, i, sql, &s->reset);
	if (!is_unknown(s, i))
		return vars_is_put_set(&s->asked, &server->vars, i, "", sql);
	if (!vars_get(&server->vars, i))
		return false;
	if (vars_is_put_set(&server->own, &server->vars, i, "", sql))
		buf_put_text(sql, ";");
	vars_put_set_raw(&s->asked, i, sql);
	return true;
}

static void spelling_send(struct spelling *s)
{
	struct server *server = slot_server(s->request.in_pool.slot);
	struct scope scope = scope_of_pool(s->request.in_pool.pool);
	uint64_t query = scope_query_timeout(scope), xact;
	struct buf sql;

	s->state = SPELLING_ASKED;
	conn_hand_on(&server->conn, &spelling_ops);
	xact = scope_transaction_timeout(scope);
	if (!query || (xact && xact < query))
		query = xact;
	conn_set_deadline(
	    &server->conn, query ? conn_now(&server->conn) + query : UINT64_MAX);
	buf_init(&sql, 0);
	/* everything that the client's first query needs is set, so that it need not
	 * wait again if it gets the same server */
	size_t count = vars_schema_count(s->site->vars);
	s->reset = 0;
	server->confirmed = 0; /* what has the server's own value is reset afterwards */
	for (size_t i = 0; i < count; i++)
		if (is_put(s, server, i, &sql))
			buf_put_text(&sql, ";");
	conn_log(&server->conn, LEVEL_DEBUG | KIND_SERVERS, "varcache_apply: %s",
	    buf_text(&sql));
	if (sql.failed)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	else
		server_query(server, buf_text(&sql));
	buf_done(&sql);
}

static void request_granted(struct request *request)
{
	spelling_send(request_spelling(request));
}

static void request_refused(
    struct request *request, const char *sqlstate, const char *text)
{
	struct spelling *s = request_spelling(request);

	spelling_refuse(s, sqlstate, text);
	spelling_answered(s, SPELLING_OVER);
}

static void request_killed(struct request *request, const char *reason)
{
	/* a running query ends when its server closes */
	if (request_spelling(request)->state == SPELLING_QUEUED)
		request_refused(
		    request, error_sqlstate(error_of_reason(reason)), reason);
}

static const struct conn *request_conn(const struct request *request)
{
	return &request_spelling(request)->client->conn;
}

static const struct request_ops spelling_request_ops = {
    .granted = request_granted,
    .refused = request_refused,
    .killed = request_killed,
    .conn = request_conn,
};

static void spelling_ask(struct spelling *s)
{
	const char *sqlstate, *text;

	switch (broker_ask(&s->request, REQUEST_AUTH, &sqlstate, &text)) {
	case BROKER_GRANTED:
		spelling_send(s);
		break;
	case BROKER_REFUSED:
	case BROKER_FULL:
		request_refused(&s->request, sqlstate, text);
		break;
	case BROKER_WAIT:
		break;
	}
}

/* ---- clients ---- */

void spelling_begin(
    struct client *client, uint64_t unknown, void (*on_spelled)(struct client *client))
{
	struct spelling *s = mem_zero(sizeof(*s));

	s->site = client->conn.site;
	s->client = client;
	s->unknown = unknown;
	s->on_spelled = on_spelled;
	s->work.run = spelling_work;
	s->request.ops = &spelling_request_ops;
	vars_share(&s->asked, &client->params.vars);
	client->login->spelling = s;
	pool_join(client->request.in_pool.pool, &s->request.in_pool);
	s->request.in_pool.query_us = conn_now(&client->conn);
	spelling_ask(s);
}

void spelling_leave(struct client *client)
{
	struct spelling *s = client->login ? client->login->spelling : NULL;
	struct conn *conn;

	if (!s)
		return;
	client->login->spelling = NULL;
	s->client = NULL;
	if (s->state != SPELLING_ASKED) {
		if (s->state != SPELLING_RESTORED)
			spelling_free(s);
		return;
	}
	conn = &slot_server(s->request.in_pool.slot)->conn;
	if (conn_now(conn) + ABANDONED_US < conn->deadline.at_us)
		conn_set_deadline(conn, conn_now(conn) + ABANDONED_US);
}
