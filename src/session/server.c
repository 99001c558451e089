#include "session/server.h"

#include <string.h>

#include "base/text.h"
#include "session/client.h"
#include "session/server_role.h"
#include "wire/codec.h"
#include "wire/message.h"
#include "wire/prepared.h"

enum { PARAMETER_MAX = 1024 * 1024 };

static void server_name_it(const struct conn *conn, struct conn_name *out)
{
	const struct pool *pool = conn_server(conn)->slot.pool;

	if (!pool)
		return;
	out->database = pool->database->name;
	out->user = pool->user->name;
}

static void server_destroy(struct conn *conn)
{
	struct server *server = conn_server(conn);
	mem_free(server->key);
	mem_free(server->unix_dir);
	mem_free(server->host);
	mem_free(server->kept);
	mem_free(server->own_kept);
	buf_done(&server->defaults);
	slab_put(conn->site->server_slab, server);
}

const struct conn_kind server_kind = {
    .letter = 'S',
    .name_it = server_name_it,
    .rows = message_back_rows,
    .destroy = server_destroy,
};

struct server *server_new(struct site *site, const struct conn_ops *ops)
{
	struct server *server = slab_get(site->server_slab);
	conn_init(&server->conn, site, &server_kind, ops);
	vars_init(&server->vars, site->vars);
	vars_init(&server->own, site->vars);
	pipeline_init(&server->pipeline);
	buf_init(&server->defaults, 0);
	list_init(&server->cancels);
	list_init(&server->link.name_maps);
	list_init(&server->link.portals);
	site->server_count++;
	return server;
}

struct client *server_client(const struct server *server)
{
	const struct pool_request *request = server->slot.request;
	/* the request of an auth_query belongs to no client */
	return request && request->kind != REQUEST_AUTH
		   ? request_client(request_of(request))
		   : NULL;
}

bool server_is_logged_in(const struct server *server)
{
	return server->status != 0;
}

/* ---- tags ---- */

/* PostgreSQL sends no longer ones. */
enum { TAG_MAX = 4096 };

bool server_wants_tag(const struct message *m)
{
	return m->type == 'C' && !message_is_whole(m) && m->size <= TAG_MAX;
}

bool server_has_tag(const struct message *m, const char *tag)
{
	size_t size = strlen(tag) + 1;

	return m->type == 'C' && message_is_whole(m) && message_body_len(m) == size &&
	       memcmp(message_body(m), tag, size) == 0;
}

bool server_has_forgotten(const struct message *m)
{
	return server_has_tag(m, "DISCARD ALL") || server_has_tag(m, "DEALLOCATE ALL");
}

/* ---- the schema ---- */

static atomic_uint *schema_of(const struct server *server)
{
	return server->schema
		   ? server->schema
		   : prepared_registry_generation(server->conn.site->prepared,
			 server->slot.pool->database->config->dbname);
}

void server_find_schema(struct server *server)
{
	server->schema = schema_of(server);
}

uint32_t server_generation(const struct server *server)
{
	return atomic_load(schema_of(server)) | server->changes_schema;
}

void server_settle_schema(struct server *server)
{
	if (!server->changes_schema)
		return;
	atomic_fetch_add(schema_of(server), 2);
	server->changes_schema = false;
}

/* ---- the ledger ---- */

uint32_t server_next_tag(struct server *server)
{
	if (++server->last_tag < LEAK_KIND_COUNT + 1 ||
	    server->last_tag & SERVER_TAG_UNNAMED)
		server->last_tag = LEAK_KIND_COUNT + 1;
	return server->last_tag;
}

int server_owe(struct server *server, uint8_t type, enum owed_to to, uint32_t tag)
{
	server->is_ready = server->is_ready && to == OWED_MADE_UP;
	return pipeline_owe(&server->pipeline, type, to, tag);
}

/* ---- the end ---- */

void server_retire(struct server *server, const char *reason)
{
	conn_doom(&server->conn, "%s", reason);
	/* the pool must not lend it any more */
	if (server->slot.pool && !server->slot.request)
		pool_abandon(&server->slot, conn_now(&server->conn));
}

bool server_log_refused_set(struct server *server, const struct error_fields *f)
{
	/* another server serves the client */
	bool is_stopping = strncmp(f->sqlstate, "57P", 3) == 0;

	conn_log(&server->conn,
	    (unsigned)(is_stopping ? LEVEL_LOG : LEVEL_ERROR) | KIND_SERVERS,
	    "varcache_apply failed: %s: %s", f->severity, f->message);
	return !is_stopping;
}

void server_abandon(struct server *server, const char *reason)
{
	server_retire(server, reason);
	if (!server->dial)
		server_rest(server, 0);
	pool_abandon(&server->slot, conn_now(&server->conn));
}

void server_protocol_error(struct server *server, const char *reason)
{
	server->conn.site->protocol_errors++;
	server_retire(server, reason);
}

/* The log tells the type of the message, and nothing of its content. */
static void log_fault(const struct server *server, const char *what, uint8_t type)
{
	char letter[MESSAGE_LETTER], name[MESSAGE_NAME];

	conn_log(&server->conn, LEVEL_ERROR | KIND_PROTOCOL,
	    "%s pkt from server: '%s'%s", what, message_letter(type, letter),
	    message_back_name(type, name));
}

void server_unexpected(
    struct server *server, const struct message *m, const char *reason)
{
	log_fault(server, "unexpected", m->type);
	server_protocol_error(server, reason);
}

void server_unreadable(struct server *server, const struct message *m)
{
	log_fault(server, "unreadable", m->type);
	server_protocol_error(server, error_text(ERROR_BAD_PACKET));
}

void server_review_cancels(struct server *server)
{
	struct cancel_aim *aim;
	list_for (aim, &server->cancels, target_node)
		loop_later(server->conn.site->loop, &aim->work);
}

void server_lose_cancels(struct server *server)
{
	struct node *n;

	server_review_cancels(server);
	while ((n = list_pop_front(&server->cancels)))
		container_of(n, struct cancel_aim, target_node)->target = NULL;
}

void server_leave(struct server *server, const char *reason)
{
	struct site *site = server->conn.site;

	if (site->shutdown != SHUTDOWN_NOW && server_is_logged_in(server) &&
	    !server->is_cut && stream_is_open(&server->conn.stream)) {
		struct buf buf;
		buf_init(&buf, 0);
		codec_put_terminate(&buf);
		stream_write(&server->conn.stream, buf.bytes, buf.len);
		buf_done(&buf);
	}
	server_settle_schema(server);
	server_lose_cancels(server);
	site->server_events->gone(server, reason);
	pipeline_done(&server->pipeline);
	prepared_set_clear(&server->statements);
	vars_done(&server->vars);
	vars_done(&server->own);
	site->server_count--;
}

void server_malformed(struct conn *conn, const uint8_t *bytes, size_t have)
{
	server_log_header(conn_server(conn), bytes, have);
	server_protocol_error(conn_server(conn), error_text(ERROR_SERVER_BAD_HEADER));
}

void server_log_header(const struct server *server, const uint8_t *bytes, size_t have)
{
	enum { HEADER = 5, SHOWN_MOST = 8 };
	char letter[MESSAGE_LETTER], shown[SHOWN_MOST + 1] = "";

	if (have < HEADER)
		return;
	/* after the login, what follows the header may be data of a client */
	if (!server_is_logged_in(server))
		for (size_t i = 0; i < have && i < SHOWN_MOST; i++)
			shown[i] = text_is_printable(bytes[i]) ? (char)bytes[i] : '.';
	conn_log(&server->conn, LEVEL_ERROR | KIND_PROTOCOL,
	    "bad pkt header from server: '%s' with length %u%s%s",
	    message_letter(bytes[0], letter), get_u32(bytes + 1),
	    *shown ? ", as text: " : "", shown);
}

void server_log_loss(const struct server *server, const struct err *err)
{
	if (!conn_log_tls_failure(&server->conn, err) && err)
		conn_log(&server->conn, LEVEL_LOG | KIND_SERVERS,
		    "server connection lost: %s", err->text);
}

void server_ended(struct conn *conn, const struct err *err)
{
	server_log_loss(conn_server(conn), err);
	server_retire(conn_server(conn), error_text(ERROR_SERVER_CRASHED));
}

void server_closed(struct conn *conn, const char *reason)
{
	server_leave(conn_server(conn), reason);
}

/* ---- its parameters, and commands of the pooler ---- */

/* All that PostgreSQL reports before one ReadyForQuery is in the client_encoding that
 * is in force then, which may be among it in any place. */
static int note_value(struct server *server, size_t i, const char *value)
{
	if (vars_set(&server->vars, i, value) < 0)
		return -1;
	if (i == VAR_CLIENT_ENCODING)
		return vars_set_encoding(&server->vars, server->noted);
	if (i < EFFECTS_PARAMETERS && vars_is_outside_ascii(&server->vars, i))
		server->noted |= UINT64_C(1) << i;
	return 0;
}

int server_note_parameter(struct server *server, const struct message *m,
    struct vars *also, struct buf *untracked)
{
	const char *name, *value;
	int i;

	if (m->size > PARAMETER_MAX || codec_read_parameter_status(message_body(m),
					   message_body_len(m), &name, &value) < 0) {
		server_protocol_error(server, error_text(ERROR_SERVER_BAD_PARAMETER));
		return -1;
	}
	/* what it reports at its login */
	i = untracked ? vars_schema_learn(server->conn.site->vars, name)
		      : vars_schema_find(server->conn.site->vars, name);
	/* what no client can ask for keeps its place among what servers report */
	if (untracked &&
	    (i < 0 || !vars_schema_is_named(server->conn.site->vars, (size_t)i)))
		codec_put_parameter_status(untracked, name, value);
	if (i < 0)
		return 0;
	if (note_value(server, (size_t)i, value) < 0) {
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
		return -1;
	}
	for (size_t k = 0; also && k < EFFECTS_PARAMETERS && server->noted >> k; k++)
		if (server->noted >> k & 1)
			vars_copy(also, &server->vars, k);
	if (also)
		vars_copy(also, &server->vars, (size_t)i);
	return 0;
}

bool server_puts_back(
    const struct server *server, size_t i, struct buf *sql, uint64_t *reset)
{
	const struct vars_schema *schema = server->conn.site->vars;

	if (!vars_schema_may_be_set(schema, i) || !vars_get(&server->own, i) ||
	    vars_is_same(&server->vars, &server->own, i))
		return false;
	if (server->pinned >> i & 1)
		return vars_is_put_set(&server->own, &server->vars, i, "", sql);
	*reset |= UINT64_C(1) << i;
	vars_put_reset(schema, i, sql);
	return true;
}

/* Notes a ParameterStatus as the server's own value, because no client is linked to it.
 * -1: the server is doomed. */
static int note_own(struct server *server, const struct message *m)
{
	struct vars before;
	int failed;

	vars_init(&before, server->conn.site->vars);
	vars_take(&before, &server->vars);
	failed = server_note_parameter(server, m, NULL, NULL);
	for (size_t i = 0; !failed && i < vars_schema_count(server->conn.site->vars);
	     i++)
		if (!vars_is_same(&before, &server->vars, i))
			vars_copy(&server->own, &server->vars, i);
	vars_done(&before);
	if (!failed)
		server->conn.site->server_events->reported(server);
	return failed;
}

/* The name of the pooler's statement and portal, which no client uses. */
static const char command_name[] = "PGBOUNCER_COMMAND";

static void put_command_close(struct buf *out, char what)
{
	size_t at = codec_begin(out, 'C');

	buf_put_u8(out, (uint8_t)what);
	buf_put_str(out, command_name);
	codec_end(out, at);
}

int server_command(struct server *server, const char *sql, uint32_t tag)
{
	struct buf out;
	int failed = 0;
	size_t at;

	buf_init(&out, 0);
	/* closes the name first, because an earlier command that failed may have left
	 * it */
	put_command_close(&out, 'P');
	put_command_close(&out, 'S');
	codec_put_parse(&out, command_name, sql);
	at = codec_begin(&out, 'B');
	buf_put_str(&out, command_name);
	buf_put_str(&out, command_name);
	for (int i = 0; i < 3; i++) /* zero parameter formats, values, result formats */
		buf_put_u16(&out, 0);
	codec_end(&out, at);
	at = codec_begin(&out, 'E');
	buf_put_str(&out, command_name);
	buf_put_u32(&out, 0);
	codec_end(&out, at);
	put_command_close(&out, 'P');
	put_command_close(&out, 'S');
	conn_send(&server->conn, &out);
	failed = out.failed ? -1 : 0;
	buf_done(&out);
	server->is_ready = false;
	for (const char *type = "CCPBECC"; *type && !failed; type++)
		failed = pipeline_owe(&server->pipeline, (uint8_t)*type, OWED_SELF,
		    *type == 'E' ? tag : 0);
	return failed;
}

/* What has no body. */
static const uint8_t sync_bytes[] = {'S', 0, 0, 0, 4};
static const uint8_t flush_bytes[] = {'H', 0, 0, 0, 4};

void server_put_sync(struct server *server)
{
	stream_put(&server->conn.stream, NULL, sync_bytes, sizeof(sync_bytes));
}

void server_put_flush(struct server *server)
{
	stream_put(&server->conn.stream, NULL, flush_bytes, sizeof(flush_bytes));
}

int server_sync(struct server *server)
{
	server_put_sync(server);
	server->is_ready = false;
	return pipeline_owe(&server->pipeline, 'S', OWED_SELF, 0);
}

void server_query(struct server *server, const char *sql)
{
	struct buf buf;
	buf_init(&buf, 0);
	codec_put_query(&buf, sql);
	if (pipeline_owe(&server->pipeline, 'Q', OWED_SELF, 0) < 0)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	server->is_ready = false;
	/* every Query ends the unnamed statement */
	server->link.unnamed.is_owned = false;
	server->unnamed_client = 0;
	conn_send(&server->conn, &buf);
	buf_done(&buf);
}

void server_query_text(struct server *server, struct buf *sql)
{
	if (sql->failed)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	else
		server_query(server, buf_text(sql));
}

void server_ask(struct server *server)
{
	struct buf buf;

	buf_init(&buf, 0);
	buf_put(&buf, sync_bytes, sizeof(sync_bytes));
	prepared_put_close(PREPARED_NONE, &buf);
	buf_put(&buf, sync_bytes, sizeof(sync_bytes));
	if (pipeline_ask(&server->pipeline) < 0)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	server->is_ready = false;
	conn_send(&server->conn, &buf);
	buf_done(&buf);
}

/* ---- while idle ---- */

/* What is at rest ends with the name of the list in which it was. */
static const char *rest_reason(const struct server *server)
{
	return server->slot.state == SLOT_USED ? "SV_USED server got dirty"
					       : "SV_IDLE server got dirty";
}

/* What PostgreSQL may send at any time, such as that it ends, is no fault. */
static bool may_come_unasked(uint8_t type)
{
	return memchr("AENS", type, 4) != NULL;
}

static void log_unlinked(const struct server *server, uint8_t type)
{
	char letter[MESSAGE_LETTER];

	conn_log(&server->conn, LEVEL_WARNING | KIND_PROTOCOL,
	    "got packet '%s' from server when not linked",
	    message_letter(type, letter));
}

static enum step rest_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	struct error_fields f;

	/* 'A': a notification for a LISTEN of an earlier client.  Of messages after
	 * which the server stays idle only the first one is logged. */
	bool is_harmless =
	    m->type == 'A' || (m->type == 'S' && server_role_is_named(m));

	if (!server->is_unheard || !is_harmless)
		log_unlinked(server, m->type);
	server->is_unheard = true;
	if (m->type == 'A')
		return STEP_NEXT;
	switch (m->type) {
	case 'E':
		codec_read_error(message_body(m), message_body_len(m), &f);
		conn_log(conn, LEVEL_LOG | KIND_SERVERS, "server said: %s: %s",
		    f.severity, f.message);
		server_retire(server, rest_reason(server));
		break;
	case 'S':
		/* the pool closes it if its host must not be used any more */
		if (note_own(server, m) == 0 && server_role_is_named(m))
			return STEP_NEXT;
		server_retire(server, rest_reason(server));
		break;
	case 'N':
		server_retire(server, rest_reason(server));
		break;
	default:
		server_protocol_error(server, error_text(ERROR_UNKNOWN_PACKET));
		break;
	}
	return STEP_CLOSE;
}

static void rest_expired(struct conn *conn)
{
	conn->site->server_events->review(conn_server(conn));
}

/* An idle server has sent a part of a message.  It closes, because its rest would mix
 * with the next client's answers. */
static void rest_partial(struct conn *conn, uint8_t type)
{
	conn_log(conn, LEVEL_WARNING | KIND_PROTOCOL,
	    "got a part of a packet from server when not linked");
	(may_come_unasked(type) ? server_retire : server_protocol_error)(
	    conn_server(conn), rest_reason(conn_server(conn)));
}

static const struct conn_ops rest_ops = {
    .name = "rest",
    .message = rest_message,
    .partial = rest_partial,
    .expired = rest_expired,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = server_closed,
};

void server_rest(struct server *server, uint64_t wake_us)
{
	server_settle_schema(server);
	conn_hand_on(&server->conn, &rest_ops);
	server->is_unheard = false;
	conn_set_deadline(&server->conn, wake_us);
}

/* The first byte that belongs to no whole message of those that a server may send at
 * any time (PostgreSQL, "Asynchronous Operations"); NULL: there is none. */
static const uint8_t *first_unasked(const uint8_t *p, size_t left)
{
	struct frame frame;

	while (left > 0) {
		if (frame_cut(p, left, PARAMETER_MAX, message_back_rows, &frame) !=
			CUT_OK ||
		    frame.size > left || !memchr("ANS", frame.type, 3))
			return p;
		p += frame.size;
		left -= (size_t)frame.size;
	}
	return NULL;
}

/* The first message behind the one that is being shown that nobody asked for. */
static const uint8_t *first_unasked_of(const struct server *server)
{
	return first_unasked(server->conn.behind, server->conn.behind_len);
}

bool server_may_send_any_time(const uint8_t *bytes, size_t len)
{
	return !first_unasked(bytes, len);
}

bool server_is_between_messages(const struct server *server)
{
	return !first_unasked_of(server) && !server->conn.held &&
	       server->conn.passing == 0;
}

void server_note_unasked(const struct server *server)
{
	const uint8_t *unasked = first_unasked_of(server);

	if (unasked && may_come_unasked(*unasked)) {
		log_unlinked(server, *unasked);
		return;
	}
	if (unasked)
		log_fault(server, "unexpected", *unasked);
	server->conn.site->protocol_errors++;
}

/* ---- while a reset or check query runs ---- */

static enum step test_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	uint8_t status = 0;

	if (m->type == 'S' || m->type == 'Z') {
		if (!message_is_whole(m) && m->size <= PARAMETER_MAX)
			return STEP_MORE;
		if (!message_is_whole(m)) {
			server_unexpected(server, m, "idle server got dirty");
			return STEP_CLOSE;
		}
		if (m->type == 'S' && server_note_parameter(server, m, NULL, NULL) < 0)
			return STEP_CLOSE;
		if (m->type == 'S')
			conn->site->server_events->reported(server);
		if (m->type == 'Z' && codec_read_ready(message_body(m),
					  message_body_len(m), &status) < 0) {
			server_unreadable(server, m);
			return STEP_CLOSE;
		}
	}
	if (server_wants_tag(m))
		return STEP_MORE;
	server->last_us = conn_now(conn);
	if (server_has_forgotten(m))
		prepared_set_clear(&server->statements);
	/* it may have skipped a Parse of the pooler */
	if (m->type == 'E')
		prepared_set_spoil_all(server->statements);
	if (pipeline_answer(&server->pipeline, m->type, status, NULL) ==
	    ANSWER_BROKEN) {
		server_unexpected(server, m, error_text(ERROR_UNKNOWN_PACKET));
		return STEP_CLOSE;
	}
	if (m->type == 'Z')
		server->noted = 0;
	if (m->type != 'Z' || !pipeline_is_settled(&server->pipeline))
		return STEP_NEXT;
	server->status = status;
	if (status != 'I') {
		server_retire(server,
		    server->test_failure ? server->test_failure : "reset query failed");
		return STEP_CLOSE;
	}
	server->is_ready = true;
	conn->site->server_events->tested(server);
	return STEP_NEXT;
}

static void test_expired(struct conn *conn)
{
	server_retire(conn_server(conn), "server idle timeout");
}

static const struct conn_ops test_ops = {
    .name = "test",
    .message = test_message,
    .part = conn_ignore_part,
    .expired = test_expired,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = server_closed,
};

void server_begin_test(struct server *server, const char *reason_failed)
{
	uint64_t limit = scope_server_idle_timeout(scope_of_pool(server->slot.pool));
	conn_hand_on(&server->conn, &test_ops);
	server->test_failure = reason_failed;
	conn_set_deadline(&server->conn, limit ? conn_now(&server->conn) + limit : 0);
}

void server_test(struct server *server, const char *sql, const char *reason_failed)
{
	server_begin_test(server, reason_failed);
	server->confirmed = 0; /* it may be DISCARD ALL */
	server->has_own_kept = false;
	server->is_kept_doubtful = true;
	server_query(server, sql);
}
