#include "relay/sql_statements.h"

#include <string.h>

#include "relay/begin.h"
#include "relay/sql_commands.h"
#include "wire/codec.h"
#include "wire/pipeline.h"
#include "wire/prepared.h"

enum { HEADER_LEN = 5, KEPT_MAX = 64 * 1024 };

struct sql_query {
	struct sql_command command;
	struct sql_effects effects; /* of the client's text */
	bool has_answer;            /* a part of the answer went to the client */
	bool may_retry;  /* it began the transaction, and this is the first attempt */
	bool is_lost;    /* it will be tried again */
	struct buf kept; /* the client's text for another attempt; empty: too long to be
			    kept */
};

static int send_query(
    struct sql_query *q, struct server *server, const char *text, size_t len)
{
	struct buf out;
	size_t at;
	int failed;

	buf_init(&out, 0);
	at = codec_begin(&out, 'Q');
	sql_command_put(&q->command, text, len, &out);
	buf_put_u8(&out, 0);
	codec_end(&out, at);
	failed = out.failed;
	conn_send(&server->conn, &out);
	buf_done(&out);
	server->is_ready = false;
	return failed ? -1 : pipeline_owe(&server->pipeline, 'Q', OWED_CLIENT, 0);
}

void sql_unlink(struct server *server)
{
	struct sql_query *q = server->link.sql;

	if (!q)
		return;
	server->link.sql = NULL;
	sql_command_done(&q->command);
	buf_done(&q->kept);
	mem_free(q);
}

/* ---- the client's query ---- */

static enum sql_fate no_memory(struct client *client, struct server *server)
{
	server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	client_fatal(client, ERROR_OUT_OF_MEMORY);
	return SQL_BROKEN;
}

/* Sends the command; text has len bytes, without its NUL.  The query owns the command
 * from here on. */
static enum sql_fate send_command(struct client *client, struct server *server,
    const struct sql_command *command, const struct sql_effects *effects,
    const char *text, size_t len)
{
	struct sql_query *q = mem_zero(sizeof(*q));
	struct prepared_text *runs;

	server->link.sql = q;
	buf_init(&q->kept, 0);
	q->command = *command;
	q->effects = *effects;
	q->may_retry = server->is_ready;
	runs = command->sql.span.kind == COMMAND_EXECUTE ? command->text : NULL;
	if (runs) {
		runs->last_use_us = conn_now(&server->conn);
		runs->hits++;
	}
	if (len <= KEPT_MAX)
		buf_put(&q->kept, text, len);
	server->link.hold = LINK_UNTIL_ANSWERED;
	/* what the command needs is sent in the same transaction; in a failed one it
	 * would fail, too */
	if ((server->status != 'E' &&
		sql_before_run(client, server, q->command.sql.span.kind,
		    q->command.sql.name, q->command.text) < 0) ||
	    send_query(q, server, text, len) < 0)
		return no_memory(client, server);
	return SQL_SENT;
}

enum sql_fate sql_rewrite_query(struct client *client, struct server *server,
    const struct message *m, const struct sql_effects *effects)
{
	const char *text = (const char *)m->bytes + HEADER_LEN;
	struct sql_command command;
	size_t len;

	if (effects->command.kind == COMMAND_NONE || !message_is_whole(m))
		return SQL_FORWARD;
	len = m->have - HEADER_LEN - 1;
	if (memchr(text, 0, len + 1) != text + len || server->pipeline.skipping)
		return SQL_FORWARD;
	if (sql_command_init(&command, client, server, text, effects) < 0)
		return no_memory(client, server);
	if (command.sql.span.kind == COMMAND_NONE)
		return SQL_FORWARD;
	if (!begin_is_all(server)) {
		/* otherwise the answers that it waits for would come only with a Sync
		 */
		server_put_flush(server);
		sql_command_done(&command);
		return SQL_WAIT;
	}
	return send_command(client, server, &command, effects, text, len);
}

/* ---- the server's answers ---- */

bool sql_wants_whole(const struct server *server, const struct message *m)
{
	return server->link.sql && (m->type == 'E' || m->type == 'C') &&
	       m->size <= KEPT_MAX;
}

static enum sql_answer answer_error(struct sql_query *q, struct client *client,
    struct server *server, const struct message *m, const struct pipeline_entry *done)
{
	const struct sql_command *c = &q->command;
	/* an error of the Query itself does not complete it */
	bool is_before = done->type != 0;
	struct buf moved, out;

	if (is_before) {
		/* PostgreSQL skips the Query, too: a Sync brings the ReadyForQuery that
		 * the client waits for */
		server_put_sync(server);
		if (pipeline_owe(&server->pipeline, 'S', OWED_CLIENT, 0) < 0)
			no_memory(client, server);
	}
	if (!is_before && sql_has_lost(server, m, c->sql.span.kind, c->text)) {
		q->is_lost = q->may_retry && !q->has_answer && q->kept.len > 0;
		if (q->is_lost)
			return SQL_KEEP;
	}
	if (!message_is_whole(m))
		return SQL_PASS;
	buf_init(&moved, 0);
	buf_init(&out, 0);
	prepared_sql_put_error(message_body(m), message_body_len(m), &c->move, &moved);
	prepared_put_error_renamed(moved.bytes, moved.len, c->ours, c->sql.name, &out);
	out.failed = out.failed || moved.failed;
	client_say(client, &out);
	buf_done(&moved);
	buf_done(&out);
	return SQL_KEEP;
}

static enum sql_answer answer_ready(
    struct sql_query *q, struct client *client, struct server *server)
{
	bool is_lost = q->is_lost && server->status == 'I';
	struct sql_effects effects = q->effects;
	struct buf kept = q->kept;
	struct sql_command command;
	const char *text;

	buf_init(&q->kept, 0);
	sql_unlink(server);
	if (is_lost) {
		text = (const char *)kept.bytes;
		if (sql_command_init(&command, client, server, text, &effects) < 0)
			no_memory(client, server);
		else if (send_command(client, server, &command, &effects, text,
			     kept.len) == SQL_SENT)
			server->link.sql->may_retry = false;
	}
	buf_done(&kept);
	return is_lost ? SQL_KEEP : SQL_PASS;
}

enum sql_answer sql_answered(struct client *client, struct server *server,
    const struct message *m, const struct pipeline_entry *done)
{
	struct sql_query *q = server->link.sql;

	if (!q)
		return SQL_PASS;
	switch (m->type) {
	case 'C':
		if (sql_completed(client, server, m, q->command.sql.span.kind,
			q->command.sql.name, q->command.text) < 0)
			no_memory(client, server);
		break;
	case 'E':
		return answer_error(q, client, server, m, done);
	case 'Z':
		return answer_ready(q, client, server);
	case 'N':
	case 'S':
	case 'A':
		return SQL_PASS;
	default:
		break;
	}
	q->has_answer = true;
	return SQL_PASS;
}
