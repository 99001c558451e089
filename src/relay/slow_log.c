/*
 * The time of a transaction is that from its first message to its end.  It has three
 * parts: the client waits for a server until it is linked to one; the server works on
 * each query from its first message to its last answer; and in between the server waits
 * for the client.
 */
#include "relay/slow_log.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "handoff/record.h"
#include "relay/sql_facts.h"
#include "wire/prepared.h"
#include "wire/sql_scan.h"

static uint64_t limit_of(const struct client *client)
{
	return scope_log_min_duration(scope_of_login(client->database, client->user));
}

static void span_clear(struct slow_log_span *span)
{
	prepared_unref(span->bound);
	*span = (struct slow_log_span){.bound = NULL};
}

void slow_log_forget(struct client *client)
{
	if (!client->slow_log)
		return;
	span_clear(&client->slow_log->xact);
	span_clear(&client->slow_log->query);
	buf_done(&client->slow_log->text);
	buf_done(&client->slow_log->longest);
	mem_free(client->slow_log);
	client->slow_log = NULL;
}

static struct slow_log *slow_log_new(uint64_t limit_us)
{
	struct slow_log *slow_log = mem_zero(sizeof(*slow_log));

	slow_log->limit_us = limit_us;
	buf_init(&slow_log->text, 0);
	buf_init(&slow_log->longest, 0);
	return slow_log;
}

void slow_log_begin(struct client *client)
{
	uint64_t limit_us = limit_of(client);

	if (!limit_us || client->replication) {
		slow_log_forget(client);
		return;
	}
	if (!client->slow_log) {
		client->slow_log = slow_log_new(limit_us);
		return;
	}
	span_clear(&client->slow_log->xact);
	span_clear(&client->slow_log->query);
	buf_clear(&client->slow_log->text);
	buf_clear(&client->slow_log->longest);
	*client->slow_log = (struct slow_log){.limit_us = limit_us,
	    .text = client->slow_log->text,
	    .longest = client->slow_log->longest};
}

void slow_log_begin_query(struct client *client)
{
	struct slow_log *slow_log = client->slow_log;

	span_clear(&slow_log->query);
	slow_log->query.received = slow_log->received;
	slow_log->query.sent = slow_log->sent;
	slow_log->query_count++;
	buf_clear(&slow_log->text);
}

/* ---- texts ---- */

/* Keeps the beginning of a text, whole characters of UTF-8, if the query has none.  Its
 * literals are not even kept, unless they shall be logged. */
static void note_text(
    struct client *client, const struct server *server, const char *text, size_t len)
{
	struct scope scope = scope_of_login(client->database, client->user);
	struct buf *kept = &client->slow_log->text;
	size_t most = (size_t)scope_log_slow_text(scope);
	uint8_t *room;

	if (kept->len || !most)
		return;
	len = strnlen(text, len);
	if (len > most) {
		for (len = most; len > 0 && ((uint8_t)text[len] & 0xc0) == 0x80; len--)
			;
	}
	if (site_settings(client->conn.site)->log_slow_literals) {
		buf_put(kept, text, len);
	} else if ((room = buf_room(kept, len + 1))) {
		sql_normalize(text, len, sql_facts_has_escapes(server), (char *)room);
		buf_grow(kept, strlen((char *)room));
	}
}

/* The server has worked on the query for so long. */
static void note_work(struct slow_log *slow_log, uint64_t us)
{
	struct buf text = slow_log->text;

	slow_log->worked_us += us;
	if (!text.len || us < slow_log->longest_us)
		return;
	slow_log->text = slow_log->longest;
	slow_log->longest = text;
	slow_log->longest_us = us;
	buf_clear(&slow_log->text);
}

/* ---- traces ---- */

static void note_trace(struct slow_log_span *span, const char *traceparent)
{
	if (!span->traceparent[0] && !span->bound)
		memcpy(span->traceparent, traceparent, TRACEPARENT_TEXT);
}

static void note_bound(struct slow_log_span *span, struct prepared_text *text)
{
	if (!span->traceparent[0] && !span->bound)
		span->bound = prepared_ref(text);
}

/* A Bind of a statement that was prepared earlier: keeps its text, which is examined
 * only if the transaction is logged. */
static void look_at_bind(
    struct client *client, const struct server *server, const struct message *m)
{
	struct slow_log *slow_log = client->slow_log;
	struct prepared_text *text;
	const char *name;

	if (prepared_look(m->bytes, m->have, m->size, &name, NULL) != PREPARED_NAMED)
		return;
	text = prepared_names_find(client->names, name);
	if (!text)
		return;
	note_bound(&slow_log->xact, text);
	note_bound(&slow_log->query, text);
	note_text(client, server, prepared_sql(text), strlen(prepared_sql(text)));
}

void slow_log_look(
    struct client *client, const struct server *server, const struct message *m)
{
	struct slow_log *slow_log = client->slow_log;
	char traceparent[TRACEPARENT_TEXT];
	const char *text;
	size_t len;

	if (m->type == 'B') {
		look_at_bind(client, server, m);
		return;
	}
	if ((m->type != 'Q' && m->type != 'P') || !sql_facts_find(m, &text, &len))
		return;
	note_text(client, server, text, len);
	if (!traceparent_find(text, len, sql_facts_has_escapes(server), traceparent))
		return;
	note_trace(&slow_log->xact, traceparent);
	note_trace(&slow_log->query, traceparent);
}

/* The trace that a span belongs to; "": none. */
static const char *trace_of(struct slow_log_span *span, const struct server *server)
{
	const char *sql;

	if (!span->traceparent[0] && span->bound) {
		sql = prepared_sql(span->bound);
		(void)traceparent_find(sql, strlen(sql),
		    server && sql_facts_has_escapes(server), span->traceparent);
	}
	return span->traceparent;
}

/* ---- the line ---- */

/* How long the client waited for a server, and how long the server worked. */
struct slow_log_times {
	uint64_t whole_us, waited_us, worked_us;
};

static uint64_t between(uint64_t from_us, uint64_t to_us)
{
	return to_us > from_us ? to_us - from_us : 0;
}

static uint64_t worked(
    const struct client *client, const struct server *server, uint64_t now_us)
{
	uint64_t query_us = client->request.in_pool.query_us;

	if (!query_us || !server)
		return 0;
	return between(
	    server->link.since_us > query_us ? server->link.since_us : query_us,
	    now_us);
}

static uint64_t waited(const struct server *server, uint64_t from_us, uint64_t now_us)
{
	return between(from_us, server ? server->link.since_us : now_us);
}

static void put_line(struct client *client, const struct server *server,
    struct slow_log_span *span, const struct slow_log_times *t, const char *how)
{
	struct slow_log *slow_log = client->slow_log;
	bool is_xact = span == &slow_log->xact;
	struct buf *text = is_xact ? &slow_log->longest : &slow_log->text;
	const char *trace = trace_of(span, server);
	const char *name = vars_get(&client->params.vars, VAR_APPLICATION_NAME);
	char address[SOCK_PORT_TEXT] = "";
	struct log_field fields[] = {
	    log_field_ms("duration_ms", t->whole_us),
	    log_field_ms("wait_ms", t->waited_us),
	    log_field_ms("server_ms", t->worked_us),
	    log_field_ms(
		"client_ms", between(t->waited_us + t->worked_us, t->whole_us)),
	    log_field_number("queries", is_xact ? slow_log->query_count : 1),
	    log_field_number(
		"received", (int64_t)(slow_log->received - span->received)),
	    log_field_number("sent", (int64_t)(slow_log->sent - span->sent)),
	    log_field_text("ended", how),
	    log_field_text("application_name", text_or_null(name)),
	    log_field_text("traceparent", text_or_null(trace)),
	    log_field_text("server", address),
	    log_field_number("server_pid", server ? server->remote_pid : 0),
	    /* last, because a plain line may be cut */
	    log_field_text("query", text_or_null(buf_text(text))),
	};
	size_t count = sizeof(fields) / sizeof(fields[0]);

	if (server) {
		sock_addr_text(&server->conn.remote, server->conn.unix_port, address);
	} else {
		/* without those of the server */
		fields[count - 3] = fields[count - 1];
		count -= 2;
	}
	conn_log_fields(&client->conn, LEVEL_LOG | KIND_SLOW,
	    &(struct log_fields){fields, count}, "slow %s",
	    is_xact ? "transaction" : "query");
}

static void log_xact(struct client *client, const struct server *server,
    uint64_t now_us, const char *how)
{
	const struct slow_log_times times = {
	    .whole_us = between(client->xact_us, now_us),
	    .waited_us = waited(server, client->xact_us, now_us),
	    .worked_us = client->slow_log->worked_us,
	};

	if (times.whole_us >= client->slow_log->limit_us)
		put_line(client, server, &client->slow_log->xact, &times, how);
}

void slow_log_answered(
    struct client *client, const struct server *server, uint64_t now_us)
{
	struct slow_log *slow_log = client->slow_log;
	uint64_t query_us = client->request.in_pool.query_us;
	const struct slow_log_times times = {
	    .whole_us = between(query_us, now_us),
	    .waited_us = waited(server, query_us, now_us),
	    .worked_us = worked(client, server, now_us),
	};
	bool ends = server->status == 'I' && client->xact_us;

	if (!ends && query_us && pool_mode(server->slot.pool) == POOL_MODE_SESSION &&
	    times.whole_us >= slow_log->limit_us)
		put_line(client, server, &slow_log->query, &times, "ready");
	note_work(slow_log, times.worked_us);
	if (ends)
		log_xact(client, server, now_us, "ready");
}

void slow_log_end(struct client *client, const struct server *server, const char *how)
{
	uint64_t now_us = conn_now(&client->conn);

	if (!client->slow_log || !client->xact_us)
		return;
	note_work(client->slow_log, worked(client, server, now_us));
	log_xact(client, server, now_us, how);
}

/* ---- in another process ---- */

/* The text that was bound stays here, so it is examined now. */
static struct record_span describe_span(
    struct slow_log_span *span, const struct server *server)
{
	return (struct record_span){.received = span->received,
	    .sent = span->sent,
	    .traceparent = trace_of(span, server)};
}

void slow_log_describe(const struct client *client, struct record_client *out)
{
	struct slow_log *slow_log = client->slow_log;
	const struct server *server = client_server(client);

	if (!slow_log || !client->xact_us)
		return;
	out->slow.is_there = true;
	out->slow.received = slow_log->received;
	out->slow.sent = slow_log->sent;
	out->slow.worked_us = slow_log->worked_us;
	out->slow.query_count = slow_log->query_count;
	out->slow.xact = describe_span(&slow_log->xact, server);
	out->slow.query = describe_span(&slow_log->query, server);
}

static void restore_span(struct slow_log_span *span, const struct record_span *from)
{
	span->received = from->received;
	span->sent = from->sent;
	snprintf(span->traceparent, sizeof(span->traceparent), "%s", from->traceparent);
}

void slow_log_restore(struct client *client, const struct record_client *from)
{
	uint64_t limit_us = limit_of(client);

	if (!limit_us || !from->slow.is_there)
		return;
	client->slow_log = slow_log_new(limit_us);
	client->slow_log->received = from->slow.received;
	client->slow_log->sent = from->slow.sent;
	client->slow_log->worked_us = from->slow.worked_us;
	client->slow_log->query_count = from->slow.query_count;
	restore_span(&client->slow_log->xact, &from->slow.xact);
	restore_span(&client->slow_log->query, &from->slow.query);
}
