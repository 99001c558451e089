/*
 * PREPARE, EXECUTE and DEALLOCATE as simple queries.  The lexing is
 * wire/prepared_sql's; here is what is sent instead, and which of its answers are the
 * client's.
 */
#include "session/sql_statements.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/codec.h"
#include "wire/pipeline.h"
#include "wire/prepared.h"
#include "wire/prepared_sql.h"

enum { HEADER_LEN = 5, STEPS_MOST = 3, KEPT_MAX = 64 * 1024 };

/* A server-side name that no text ever gets. */
static const char no_statement[] = "PGBOUNCER_SQL_0";

/* A command of ours before the client's. */
struct sql_step {
	struct prepared_text *text; /* one reference; NULL: a statement of no use */
	bool is_prepare;            /* else DEALLOCATE */
};

struct sql_query {
	struct prepared_sql sql;
	struct prepared_sql_move move;
	struct prepared_text *text; /* one reference; NULL: the client has none */
	struct sql_step steps[STEPS_MOST];
	unsigned step_count, steps_done;
	bool is_again;   /* a PREPARE of a name that is taken */
	bool has_answer; /* some of it went to the client */
	bool may_retry;  /* it is the first of its transaction, and was not tried yet */
	bool is_lost;    /* it is to be tried again */
	char any[PREPARED_SQL_NAME]; /* a statement of no use */
	struct buf kept; /* the client's message, for that; empty: too long */
};

/* ---- composing ---- */

static const char *name_of(const struct sql_query *q)
{
	if (q->sql.kind == PREPARED_SQL_DEALLOCATE && q->text)
		return q->any;
	return q->text ? q->text->name : no_statement;
}

static void add_step(struct sql_query *q, struct prepared_text *text, bool is_prepare)
{
	q->steps[q->step_count++] = (struct sql_step){
	    .text = text ? prepared_ref(text) : NULL,
	    .is_prepare = is_prepare,
	};
}

static void let_go(
    struct sql_query *q, struct server *server, struct prepared_text *text)
{
	add_step(q, text, false);
	prepared_set_del(&server->sql_statements, text);
}

/* In a transaction a failure of it would be the client's. */
static void make_room(struct sql_query *q, struct server *server)
{
	int max = site_settings(server->conn.site)->max_prepared_statements;
	size_t most = max > 1 ? (size_t)max - 1 : 0;
	struct prepared_text *old;

	if (server->status != 'I')
		return;
	old = prepared_set_evict(&server->sql_statements, most);
	if (!old)
		return;
	add_step(q, old, false);
	prepared_unref(old);
}

static bool is_held(const struct server *server, const struct prepared_text *text)
{
	return prepared_set_has(server->sql_statements, text) &&
	       !prepared_set_is_spoilt(server->sql_statements, text);
}

static void plan(struct sql_query *q, struct server *server, bool is_new)
{
	if (!q->text)
		return;
	if (q->sql.kind == PREPARED_SQL_DEALLOCATE) {
		/* others may need it: what goes is a statement of no use */
		add_step(q, NULL, true);
		return;
	}
	if (!is_new && is_held(server, q->text)) {
		prepared_set_touch(server->sql_statements, q->text);
		return;
	}
	if (prepared_set_has(server->sql_statements, q->text))
		let_go(q, server, q->text);
	make_room(q, server);
	if (!is_new)
		add_step(q, q->text, true);
}

static void put_step(
    const struct sql_query *q, const struct sql_step *step, struct buf *out)
{
	const char *name = step->text ? step->text->name : q->any;

	if (step->is_prepare)
		buf_printf(out, "PREPARE \"%s\"", name);
	else
		buf_printf(out, "DEALLOCATE \"%s\"", name);
	if (step->is_prepare)
		buf_put_text(out, step->text ? prepared_sql(step->text) : " AS SELECT");
	/* it may end with a comment */
	buf_put_text(out, "\n;");
}

static void put_query(
    struct sql_query *q, const char *text, size_t len, struct buf *out)
{
	size_t at = codec_begin(out, 'Q'), begin = out->len, name;

	for (unsigned i = 0; i < q->step_count; i++)
		put_step(q, &q->steps[i], out);
	if (out->failed)
		return;
	q->move.before =
	    prepared_sql_characters((const char *)out->bytes + begin, out->len - begin);
	q->move.name = prepared_sql_characters(text, q->sql.from);
	buf_put(out, text, q->sql.from);
	name = out->len;
	buf_printf(out, "\"%s\"", name_of(q));
	q->move.longer =
	    (long)(out->len - name) -
	    (long)prepared_sql_characters(text + q->sql.from, q->sql.to - q->sql.from);
	buf_put(out, text + q->sql.to, len - q->sql.to);
	buf_put_u8(out, 0);
	codec_end(out, at);
}

static int send_query(
    struct sql_query *q, struct server *server, const char *text, size_t len)
{
	struct buf out;

	buf_init(&out, 0);
	put_query(q, text, len, &out);
	conn_send(&server->conn, &out);
	buf_done(&out);
	server->is_ready = false;
	return pipeline_owe(&server->pipeline, 'Q', OWED_CLIENT, 0);
}

/* ---- the end ---- */

/* What was let go of in a step that was not taken is still there. */
static void end(struct server *server)
{
	struct sql_query *q = server->sql;

	if (!q)
		return;
	server->sql = NULL;
	for (unsigned i = 0; i < q->step_count; i++) {
		struct sql_step *step = &q->steps[i];
		if (i >= q->steps_done && !step->is_prepare && step->text &&
		    prepared_set_restore(&server->sql_statements, step->text) < 0)
			server_retire(server, "out of memory");
		prepared_unref(step->text);
	}
	prepared_unref(q->text);
	buf_done(&q->kept);
	mem_free(q);
}

void sql_unlink(struct server *server)
{
	end(server);
}

void sql_forget(struct client *client, struct server *server)
{
	prepared_names_clear(&client->sql_names);
	prepared_set_clear(&server->sql_statements);
}

/* ---- the client's query ---- */

static enum sql_fate no_memory(struct client *client, struct server *server)
{
	server_retire(server, "out of memory");
	client_fatal(client, ERROR_OUT_OF_MEMORY);
	return SQL_BROKEN;
}

/* text: of so many bytes, without its NUL. */
static enum sql_fate run(struct client *client, struct server *server,
    const struct prepared_sql *sql, const char *text, size_t len)
{
	struct sql_query *q = mem_zero(sizeof(*q));
	bool is_new = false;

	server->sql = q;
	buf_init(&q->kept, 0);
	q->sql = *sql;
	q->may_retry = server->is_ready;
	/* another one each time: a cancel may leave it behind */
	snprintf(q->any, sizeof(q->any), "PGBOUNCER_SQL_0_%" PRIu64,
	    conn_now(&server->conn));
	q->text = prepared_names_find(client->sql_names, sql->name);
	q->is_again = q->text && sql->kind == PREPARED_SQL_PREPARE;
	if (q->text) {
		prepared_ref(q->text);
		q->text->last_use_us = conn_now(&server->conn);
		q->text->hits += sql->kind == PREPARED_SQL_EXECUTE;
	} else if (sql->kind == PREPARED_SQL_PREPARE) {
		is_new = true;
		q->text = prepared_intern(server->conn.site->sql_prepared,
		    (const uint8_t *)text + sql->to, sql->end - sql->to);
		if (!q->text)
			return no_memory(client, server);
	}
	plan(q, server, is_new);
	if (len <= KEPT_MAX)
		buf_put(&q->kept, text, len);
	server->holds_back = true;
	return send_query(q, server, text, len) < 0 ? no_memory(client, server)
						    : SQL_SENT;
}

static bool is_on(const struct server *server)
{
	return site_settings(server->conn.site)->track_sql_prepare &&
	       pool_mode(server->seat.pool) != POOL_MODE_SESSION &&
	       !server->seat.is_replication;
}

enum sql_fate sql_take(
    struct client *client, struct server *server, const struct message *m)
{
	static const uint8_t flush[] = {'H', 0, 0, 0, 4};
	const char *text = (const char *)m->bytes + HEADER_LEN;
	struct prepared_sql sql;
	size_t len;

	if (!is_on(server) || m->have <= HEADER_LEN ||
	    !prepared_sql_begins(text, m->have - HEADER_LEN))
		return SQL_FORWARD;
	if (!message_is_whole(m))
		return SQL_MORE;
	len = m->have - HEADER_LEN - 1;
	if (memchr(text, 0, len + 1) != text + len)
		return SQL_FORWARD;
	prepared_sql_look(text, len, &sql);
	if (sql.kind == PREPARED_SQL_NONE || sql.kind == PREPARED_SQL_DEALLOCATE_ALL ||
	    server->pipeline.skipping)
		return SQL_FORWARD;
	if (pipeline_count(&server->pipeline) > 0) {
		/* or the answers to wait for would not come before a Sync */
		stream_put(&server->conn.stream, NULL, flush, sizeof(flush));
		return SQL_WAIT;
	}
	return run(client, server, &sql, text, len);
}

/* ---- the server's answers ---- */

bool sql_wants_whole(const struct server *server, const struct message *m)
{
	return server->sql && m->type == 'E' && m->size <= KEPT_MAX;
}

static void finish_step(struct sql_query *q, struct server *server)
{
	const struct sql_step *step = &q->steps[q->steps_done++];

	if (step->is_prepare && step->text &&
	    prepared_set_add(&server->sql_statements, step->text) < 0)
		server_retire(server, "out of memory");
}

static void finish(struct sql_query *q, struct client *client, struct server *server)
{
	int failed = 0;

	if (q->sql.kind == PREPARED_SQL_DEALLOCATE) {
		prepared_names_del(&client->sql_names, q->sql.name);
	} else if (q->is_again) {
		/* the server had lost it: what it has now is something else */
		prepared_set_spoil(server->sql_statements, q->text);
	} else if (q->sql.kind == PREPARED_SQL_PREPARE && q->text) {
		failed = prepared_set_add(&server->sql_statements, q->text);
		if (failed == 0)
			failed = prepared_names_put(
			    &client->sql_names, q->sql.name, q->text);
	}
	if (failed)
		no_memory(client, server);
}

/* The server does not have the statement that it was told to run or to close. */
static bool note_gone(
    struct sql_query *q, struct server *server, const struct error_fields *f)
{
	const struct sql_step *step = &q->steps[q->steps_done];
	bool is_of_step = q->steps_done < q->step_count;
	struct prepared_text *text = is_of_step ? step->text : q->text;

	if (strcmp(f->sqlstate, "26000") != 0 || !text ||
	    !strstr(f->message, text->name))
		return false;
	if (is_of_step)
		q->steps_done++; /* so be it */
	else
		prepared_set_del(&server->sql_statements, text);
	return true;
}

/* "cached plan must not change result type" in any language. */
static bool note_stale(const struct sql_query *q, struct server *server,
    const struct message *m, const struct error_fields *f)
{
	static const char routine[] = "\0RRevalidateCachedQuery";

	if (strcmp(f->sqlstate, "0A000") != 0 || q->steps_done < q->step_count ||
	    !memmem(message_body(m), message_body_len(m), routine, sizeof(routine)))
		return false;
	prepared_set_spoil(server->sql_statements, q->text);
	return true;
}

/* Did the server lose a statement, or can it not run it any more? */
static bool note_loss(
    struct sql_query *q, struct server *server, const struct message *m)
{
	struct error_fields f;

	if (!q->text || !message_is_whole(m) ||
	    codec_read_error(message_body(m), message_body_len(m), &f) < 0)
		return false;
	return note_gone(q, server, &f) || note_stale(q, server, m, &f);
}

static void send_error(
    const struct sql_query *q, struct client *client, const struct message *m)
{
	struct buf moved, out;

	buf_init(&moved, 0);
	buf_init(&out, 0);
	prepared_sql_put_error(message_body(m), message_body_len(m), &q->move, &moved);
	prepared_put_error_renamed(
	    moved.bytes, moved.len, name_of(q), q->sql.name, &out);
	out.failed = out.failed || moved.failed;
	conn_send(&client->conn, &out);
	buf_done(&moved);
	buf_done(&out);
}

static enum sql_answer answer_error(struct sql_query *q, struct client *client,
    struct server *server, const struct message *m)
{
	if (note_loss(q, server, m)) {
		q->is_lost = q->may_retry && !q->has_answer && q->kept.len > 0;
		if (q->is_lost)
			return SQL_KEEP;
	}
	if (!message_is_whole(m))
		return SQL_PASS;
	send_error(q, client, m);
	return SQL_KEEP;
}

static enum sql_answer answer_ready(
    struct sql_query *q, struct client *client, struct server *server)
{
	struct prepared_sql sql = q->sql;
	struct buf kept = q->kept;
	bool is_lost = q->is_lost && server->status == 'I';

	buf_init(&q->kept, 0);
	end(server);
	if (is_lost &&
	    run(client, server, &sql, (const char *)kept.bytes, kept.len) == SQL_SENT)
		server->sql->may_retry = false;
	buf_done(&kept);
	return is_lost ? SQL_KEEP : SQL_PASS;
}

enum sql_answer sql_answered(
    struct client *client, struct server *server, const struct message *m)
{
	struct sql_query *q = server->sql;

	if (!q)
		return SQL_PASS;
	switch (m->type) {
	case 'C':
		if (q->steps_done < q->step_count) {
			finish_step(q, server);
			return SQL_KEEP;
		}
		finish(q, client, server);
		break;
	case 'E':
		return answer_error(q, client, server, m);
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
