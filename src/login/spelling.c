/*
 * The query for one client, its place in the client's pool, and the answers of its
 * server.  The values stay on the server, where the client's first query is likely to
 * find them.
 */
#include "login/spelling.h"

#include "broker/broker.h"
#include "login/login_query.h"
#include "login/login_state.h"
#include "session/server.h"
#include "wire/codec.h"

/* How many servers may be lost before they answer. */
enum { LOST_MOST = 3 };

struct spelling {
	struct login_query query;
	struct client *client; /* borrowed; NULL: it has been told, or has left */
	struct vars asked;     /* the client's values */
	uint64_t unknown;      /* bits of those whose spelling is asked for */
	uint64_t reset;        /* bits of those that the running query resets */
	void (*on_spelled)(struct client *client);
	unsigned lost_count;
	char *refused_by; /* the server's error about a value; NULL: none */
};

static const struct conn_ops spelling_ops;

static struct spelling *spelling_of(struct login_query *query)
{
	return container_of(query, struct spelling, query);
}

static struct spelling *server_spelling(const struct server *server)
{
	return spelling_of(login_query_of_server(server));
}

static bool is_unknown(const struct spelling *s, size_t i)
{
	return i < EFFECTS_PARAMETERS && (s->unknown >> i & 1);
}

static void spelling_free(struct spelling *s)
{
	login_query_done(&s->query);
	vars_done(&s->asked);
	mem_free(s->refused_by);
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
	if (s->refused_by) {
		client_fatal_detail(client, s->query.sqlstate,
		    ERROR_INVALID_SERVER_PARAMETER, s->refused_by);
		return;
	}
	if (s->query.refusal) {
		client_fatal_text(client, s->query.sqlstate, s->query.refusal);
		return;
	}
	vars_share(&client->params.vars, &s->asked);
	s->on_spelled(client);
}

static void spelling_work(struct later *l)
{
	struct spelling *s = spelling_of(container_of(l, struct login_query, work));

	if (s->query.state == LOGIN_QUERY_QUEUED) {
		login_query_ask(&s->query);
		return;
	}
	if (s->client)
		spelling_tell(s);
	spelling_free(s);
}

/* The client is told later in this turn of the loop. */
static void spelling_over(struct login_query *query)
{
	query->state = LOGIN_QUERY_OVER;
	loop_later(query->site->loop, &query->work);
}

/* ---- the server's answers ---- */

/* Takes over what the server reports. */
static void take_reports(struct spelling *s, const struct server *server)
{
	struct pool *pool = s->query.request.in_pool.pool;

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
		vars_put_reset(server->conn.site->vars, i, &sql);
		buf_put_text(&sql, ";");
		s->reset |= UINT64_C(1) << i;
	}
	if (s->reset)
		server_query_text(server, &sql);
	buf_done(&sql);
	return s->reset;
}

static enum step answer_ready(struct server *server)
{
	struct spelling *s = server_spelling(server);

	if (server->status != 'I') {
		server_retire(server, "SET has left a transaction open");
		return STEP_CLOSE;
	}
	if (!s->query.refusal)
		broker_learn_resets(server, s->reset);
	if (s->query.state == LOGIN_QUERY_RUNNING && !s->query.refusal) {
		take_reports(s, server);
		if (restore_values(s, server)) {
			s->query.state = LOGIN_QUERY_RESTORING;
			return STEP_NEXT;
		}
	}
	login_query_give_back(server);
	spelling_over(&s->query);
	return STEP_NEXT;
}

/* PostgreSQL has undone all the SETs of the query, so the server stays as it was. */
static void answer_error(struct server *server, const struct message *m)
{
	struct spelling *s = server_spelling(server);
	struct error_fields f;

	codec_read_error(message_body(m), message_body_len(m), &f);
	if (!server_log_refused_set(server, &f))
		return;
	login_query_refuse(
	    &s->query, f.sqlstate, error_text(ERROR_INVALID_SERVER_PARAMETER));
	mem_free(s->refused_by);
	s->refused_by = mem_strdup(f.message);
}

static enum step spelling_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	enum step taken = login_query_take(server, m, error_text(ERROR_UNKNOWN_PACKET));

	if (taken != STEP_NEXT)
		return taken;
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

static void spelling_expired(struct conn *conn)
{
	struct server *server = conn_server(conn);

	login_query_refuse(login_query_of_server(server),
	    error_sqlstate(ERROR_QUERY_TIMEOUT), error_text(ERROR_QUERY_TIMEOUT));
	server_retire(server, error_text(ERROR_QUERY_TIMEOUT));
}

/* The server was lost.  It may have been so for long, at rest: another one is asked. */
static void spelling_closed(struct conn *conn, const char *reason)
{
	struct server *server = conn_server(conn);
	struct spelling *s = server_spelling(server);
	bool has_failed = s->query.state == LOGIN_QUERY_RUNNING && !s->query.refusal;

	server_leave(server, reason);
	if (!s->client) {
		spelling_free(s);
		return;
	}
	spelling_over(&s->query);
	if (has_failed && ++s->lost_count < LOST_MOST)
		s->query.state = LOGIN_QUERY_QUEUED;
	else if (has_failed)
		login_query_refuse(
		    &s->query, error_sqlstate(error_of_reason(reason)), reason);
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

static void spelling_send(struct login_query *query)
{
	struct spelling *s = spelling_of(query);
	struct server *server = slot_server(query->request.in_pool.slot);
	struct buf sql;

	login_query_hand_on(query, &spelling_ops);
	buf_init(&sql, 0);
	/* everything that the client's first query needs is set, so that it need not
	 * wait again if it gets the same server */
	size_t count = vars_schema_count(query->site->vars);
	s->reset = 0;
	server->confirmed = 0; /* what has the server's own value is reset afterwards */
	for (size_t i = 0; i < count; i++)
		if (is_put(s, server, i, &sql))
			buf_put_text(&sql, ";");
	conn_log(&server->conn, LEVEL_DEBUG | KIND_SERVERS, "varcache_apply: %s",
	    buf_text(&sql));
	server_query_text(server, &sql);
	buf_done(&sql);
}

static const struct conn *request_conn(const struct request *request)
{
	return &spelling_of(login_query_of(request))->client->conn;
}

static const struct request_ops spelling_request_ops = {
    .granted = login_query_granted,
    .refused = login_query_refused,
    .killed = login_query_killed,
    .conn = request_conn,
};

/* ---- clients ---- */

void spelling_begin(
    struct client *client, uint64_t unknown, void (*on_spelled)(struct client *client))
{
	struct spelling *s = mem_zero(sizeof(*s));

	s->client = client;
	s->unknown = unknown;
	s->on_spelled = on_spelled;
	s->query.work.run = spelling_work;
	s->query.send = spelling_send;
	s->query.over = spelling_over;
	s->query.request.ops = &spelling_request_ops;
	vars_share(&s->asked, &client->params.vars);
	client->login->spelling = s;
	login_query_init(&s->query, client->conn.site, client->request.in_pool.pool);
	login_query_ask(&s->query);
}

void spelling_leave(struct client *client)
{
	struct spelling *s = client->login ? client->login->spelling : NULL;

	if (!s)
		return;
	client->login->spelling = NULL;
	s->client = NULL;
	if (s->query.state == LOGIN_QUERY_RUNNING)
		login_query_abandon(&s->query);
	else if (s->query.state != LOGIN_QUERY_RESTORING)
		spelling_free(s);
}
