/*
 * The messages of auth_query.  Errors that the name of the user may have caused cost no
 * server; what else is not as it should be closes it.
 */
#include "login/authquery_run.h"

#include <stdio.h>
#include <string.h>

#include "wire/codec.h"
#include "wire/kept_settings.h"

static struct authquery_run *server_run(const struct server *server)
{
	return container_of(login_query_of_server(server), struct authquery_run, query);
}

void authquery_run_done(struct authquery_run *run)
{
	login_query_done(&run->query);
	mem_free_secret(run->secret);
	mem_free(run->user);
}

void authquery_run_note(struct authquery_run *run, const char *failure)
{
	lookup_end_note(&run->query.request.in_pool.pool->lookup_end,
	    loop_now(run->query.site->loop), failure);
}

/* The name cannot be looked up.  The logins that wait are told when the server has
 * answered all of the query and can serve others again. */
static void refuse_name(struct authquery_run *run)
{
	login_query_refuse(&run->query, error_sqlstate(ERROR_CONFIG_ERROR),
	    error_text(ERROR_CONFIG_ERROR));
}

/* ---- the server's answer ---- */

static enum step query_settled(struct server *server)
{
	struct authquery_run *run = server_run(server);

	authquery_run_note(run, NULL);
	login_query_give_back(server);
	run->query.over(&run->query);
	return STEP_NEXT;
}

static enum step query_refused(struct server *server, const char *reason)
{
	conn_log(&server->conn, LEVEL_ERROR | KIND_AUTH, "%s", reason);
	server_retire(server, reason);
	return STEP_CLOSE;
}

static enum step query_columns(struct server *server, const struct message *m)
{
	char reason[64];
	size_t count = 0;

	if (m->type == 'T' && codec_read_row_description(
				  message_body(m), message_body_len(m), &count) < 0) {
		server_unreadable(server, m);
		return STEP_CLOSE;
	}
	if (count == 2)
		return STEP_NEXT;
	snprintf(reason, sizeof(reason), "expected 2 columns from auth_query, not %zu",
	    count);
	return query_refused(server, reason);
}

/* A field as text. -1: the field is malformed. */
static int query_field(struct cursor *c, char **text, bool *is_null)
{
	const uint8_t *value;
	size_t len;

	*text = NULL;
	*is_null = false;
	if (codec_next_field(c, &value, &len) < 0)
		return -1;
	*is_null = value == NULL;
	if (!value)
		return 0;
	if (memchr(value, '\0', len))
		return -1;
	*text = mem_try(len + 1);
	if (!*text)
		return -1;
	memcpy(*text, value, len);
	(*text)[len] = '\0';
	return 0;
}

/* If the query returns several rows, the last one counts. */
static enum step query_row(struct server *server, const struct message *m)
{
	struct authquery_run *run = server_run(server);
	bool has_no_user, has_no_secret;
	struct cursor c;
	size_t count;

	mem_free(run->user);
	run->user = NULL;
	mem_free_secret(run->secret);
	run->secret = NULL;
	cursor_init(&c, message_body(m), message_body_len(m));
	if (codec_read_row_count(&c, &count) < 0 || count != 2 ||
	    query_field(&c, &run->user, &has_no_user) < 0 ||
	    query_field(&c, &run->secret, &has_no_secret) < 0 || cursor_left(&c)) {
		server_unreadable(server, m);
		return STEP_CLOSE;
	}
	/* a function may return such a row for every name that it does not know, so the
	 * server goes on */
	if (has_no_user || !*run->user) {
		conn_log(&server->conn, LEVEL_ERROR | KIND_AUTH,
		    "auth_query response contained null user name");
		refuse_name(run);
	}
	/* an empty secret, which no proof fits */
	if (has_no_secret)
		run->secret = mem_strdup("");
	return STEP_NEXT;
}

/* Can the name have caused the error?  A function may raise any class; of those of the
 * system itself, 42602 tells that a name is not valid, and 42704 that nobody has it. */
static bool is_about_name(const struct error_fields *f)
{
	static const char systems[][3] = {"42", "53", "57", "58", "XX"};

	if (strcmp(f->severity, "ERROR") != 0)
		return false;
	for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++)
		if (strncmp(f->sqlstate, systems[i], 2) == 0)
			return strcmp(f->sqlstate + 2, "602") == 0 ||
			       strcmp(f->sqlstate + 2, "704") == 0;
	return *f->sqlstate != '\0';
}

/* After an error about the name the server goes on: a stranger, who may send any name,
 * would cost one connection each time. */
static enum step query_error(struct server *server, const struct message *m)
{
	struct authquery_run *run = server_run(server);
	struct error_fields f;

	codec_read_error(message_body(m), message_body_len(m), &f);
	conn_log(&server->conn, LEVEL_ERROR | KIND_AUTH,
	    "S: error in auth_query: %s: %s", f.severity, f.message);
	if (is_about_name(&f)) {
		refuse_name(run);
		return STEP_NEXT;
	}
	authquery_run_note(run, f.message);
	server_retire(server, "error response from auth_query");
	return STEP_CLOSE;
}

static enum step query_message(struct conn *conn, const struct message *m)
{
	static const char unexpected[] = "unexpected response from auth_query";
	struct server *server = conn_server(conn);
	enum step taken = login_query_take(server, m, unexpected);

	if (taken != STEP_NEXT)
		return taken;
	switch (m->type) {
	case 'T':
	case 'n':
		return query_columns(server, m);
	case 'D':
		return query_row(server, m);
	case 'E':
		return query_error(server, m);
	case 'Z':
		if (!pipeline_is_settled(&server->pipeline))
			return STEP_NEXT;
		return server->status == 'I'
			   ? query_settled(server)
			   : query_refused(
				 server, "auth_query has left a transaction open");
	case 'S':
		return server_note_parameter(server, m, NULL, NULL) < 0 ? STEP_CLOSE
									: STEP_NEXT;
	case '1':
	case '2':
	case '3':
	case 'C':
	case 'I':
	case 'N':
	case 'A':
		return STEP_NEXT;
	}
	server_unexpected(server, m, unexpected);
	return STEP_CLOSE;
}

static void query_expired(struct conn *conn)
{
	server_retire(conn_server(conn), error_text(ERROR_QUERY_TIMEOUT));
}

static void query_closed(struct conn *conn, const char *reason)
{
	struct server *server = conn_server(conn);
	struct authquery_run *run = server_run(server);

	/* an error of the query says more */
	if (run->query.request.in_pool.pool->lookup_end.at_us < run->sent_us)
		authquery_run_note(run, reason);
	server_leave(server, reason);
	refuse_name(run);
	run->query.over(&run->query);
}

static const struct conn_ops query_ops = {
    .name = "auth_query",
    .message = query_message,
    .expired = query_expired,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = query_closed,
};

/* ---- sending the query ---- */

/* Sends Parse, Bind, Describe, Execute and Sync in one write.  No parameters of a
 * client are set on the server before: a client's search_path must not change what the
 * query finds. */
void authquery_run_send(struct authquery_run *run, const char *text, const char *name)
{
	struct server *server = slot_server(run->query.request.in_pool.slot);
	struct buf buf;

	run->sent_us = loop_now(run->query.site->loop);
	login_query_hand_on(&run->query, &query_ops);
	buf_init(&buf, 0);
	/* nor are those of an earlier client left in force; should that fail, the next
	 * client takes them back */
	if (kept_settings_put_back(server->kept, NULL, server->own_kept, &buf)) {
		server->is_kept_doubtful = true;
		if (server_command(server, buf_text(&buf), 0) < 0 ||
		    server_sync(server) < 0)
			server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	}
	buf_clear(&buf);
	static const char messages[] = "PBDES";
	for (const char *type = messages; *type; type++)
		if (pipeline_owe(&server->pipeline, (uint8_t)*type, OWED_SELF, 0) < 0)
			server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	codec_put_parse(&buf, "", text);
	codec_put_bind_text(&buf, &name, 1);
	codec_put_describe_portal(&buf);
	codec_put_execute(&buf);
	codec_put_sync(&buf);
	server->is_ready = false;
	server->unnamed_client = 0;
	conn_send(&server->conn, &buf);
	buf_done(&buf);
}
