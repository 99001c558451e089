/*
 * One client linked to one server: forwards messages both ways, keeps the ledger, gives
 * the server back.  The hot path.  It reads no content but parameter reports and
 * ReadyForQuery, and keeps no bytes: they go from block to socket.
 */
#include "session/relay.h"

#include <string.h>

#include "session/broker.h"
#include "session/client.h"
#include "session/clocks.h"
#include "session/params.h"
#include "session/server.h"
#include "session/statements.h"
#include "wire/codec.h"
#include "wire/message.h"
#include "wire/prepared.h"

/* Longest message from a server that is looked at whole. */
enum { LOOKED_AT_MAX = 1024 * 1024 };

static const struct conn_ops front_ops, back_ops;

static enum step back_ready(struct server *server, struct client *client);

/* ---- linking ---- */

/* The pool has linked them: make the server ours and bring it to the client's
 * parameters. True when the client must wait until those are applied. */
static bool relay_link(struct client *client, struct server *server)
{
	server->conn.ops = &back_ops;
	conn_set_deadline(&client->conn, 0);
	conn_set_deadline(&server->conn, 0);
	statements_link(server);
	return params_apply(server, client);
}

static void request_granted(struct request *request)
{
	struct client *client = request_client(request);
	/* one that is going gives it back as it is */
	if (client->conn.is_doomed)
		return;
	if (!relay_link(client, client_server(client)))
		conn_unpark(&client->conn);
}

static void request_refused(
    struct request *request, const char *sqlstate, const char *text)
{
	client_fatal_text(request_client(request), sqlstate, text);
}

static void request_killed(struct request *request, const char *reason)
{
	client_fatal_text(request_client(request), "08P01", reason);
}

/* A logged-in client never asks for a welcome. */
static void request_admitted(struct request *request)
{
	conn_unpark(&request_client(request)->conn);
}

const struct request_ops relay_request_ops = {
    .granted = request_granted,
    .admitted = request_admitted,
    .refused = request_refused,
    .killed = request_killed,
    .conn = client_of_request,
};

static enum step front_acquire(struct client *client)
{
	const char *sqlstate, *text;

	switch (broker_ask(&client->request, ASK_QUERY, &sqlstate, &text)) {
	case BROKER_GRANTED:
		return relay_link(client, client_server(client)) ? STEP_PARK
								 : STEP_NEXT;
	case BROKER_WAIT:
		client->was_notified = false;
		clocks_arm_wait(client);
		return STEP_PARK;
	case BROKER_REFUSED:
		client_fatal_text(client, sqlstate, text);
		return STEP_CLOSE;
	}
	return STEP_CLOSE;
}

/* Both go their ways; what one had to wait for because of the other is over. */
static void relay_unlink(struct client *client, struct server *server)
{
	if (server->holds_client)
		conn_resume(&client->conn);
	if (server->is_held)
		conn_resume(&server->conn);
	server_review_cancels(server);
	statements_unlink(server);
	if (server->holds_back)
		conn_unpark(&client->conn);
	server->holds_back = server->holds_to_sync = false;
	server->holds_client = false;
	server->is_held = false;
	server->idle_xact_us = 0;
	client->request.ask.query_us = 0;
	client->xact_us = 0;
}

/* ---- flow control ---- */

static void front_writable(struct conn *conn)
{
	struct server *server = client_server(conn_client(conn));
	if (server && server->is_held) {
		server->is_held = false;
		conn_resume(&server->conn);
	}
}

static void back_writable(struct conn *conn)
{
	struct server *server = conn_server(conn);
	struct client *client = server_client(server);
	if (client && server->holds_client) {
		server->holds_client = false;
		conn_resume(&client->conn);
	}
}

/* Bytes for the server; the client waits when the server takes no more. */
static void put_to_server(struct client *client, struct server *server,
    struct block *block, const uint8_t *p, size_t len)
{
	stream_put(&server->conn.stream, block, p, len);
	if (!stream_is_above_high(&server->conn.stream) || server->holds_client)
		return;
	stream_flush(&server->conn.stream);
	if (stream_is_above_high(&server->conn.stream)) {
		server->holds_client = true;
		conn_pause(&client->conn);
	}
}

static void put_to_client(struct client *client, struct server *server,
    struct block *block, const uint8_t *p, size_t len)
{
	if (client->conn.is_doomed)
		return;
	stream_put(&client->conn.stream, block, p, len);
	if (!stream_is_above_high(&client->conn.stream) || server->is_held)
		return;
	stream_flush(&client->conn.stream);
	if (stream_is_above_high(&client->conn.stream)) {
		server->is_held = true;
		conn_pause(&server->conn);
	}
}

/* ---- client to server ---- */

static void client_send_ready(struct client *client)
{
	static const uint8_t ready[] = {'Z', 0, 0, 0, 5, 'I'};
	stream_put(&client->conn.stream, NULL, ready, sizeof(ready));
}

static enum step front_drop(struct client *client)
{
	client->is_dropping = true;
	return STEP_NEXT;
}

/* The query was cancelled while it queued: answer as PostgreSQL would, run nothing. */
static enum step front_answer_cancel(struct client *client, const struct message *m)
{
	if (client->is_canceled) {
		client->is_canceled = false;
		client_error_text(
		    client, "57014", "canceling statement due to user request");
		client->is_skipping =
		    m->type != 'Q' && m->type != 'F' && m->type != 'S';
		if (!client->is_skipping)
			client_send_ready(client);
	} else if (m->type == 'S') {
		client->is_skipping = false;
		client_send_ready(client);
	}
	if (!client->is_skipping) {
		client->request.ask.query_us = 0;
		client->xact_us = 0;
		clocks_arm_rest(client);
	}
	return front_drop(client);
}

/* Clocks and counters of a query begin with its first message. */
static void front_begin(struct client *client)
{
	struct ask *ask = &client->request.ask;
	if (!ask->query_us) {
		ask->query_us = ask->last_us;
		ask->pool->stats.query_count++;
	}
	if (!client->xact_us) {
		client->xact_us = ask->last_us;
		ask->pool->stats.xact_count++;
	}
}

/* Something runs on the server now. */
static void front_began(struct client *client, struct server *server, bool begins)
{
	if (pipeline_is_settled(&server->pipeline))
		return;
	server->is_ready = false;
	server->idle_xact_us = 0;
	if (begins)
		clocks_arm_query(server, client);
}

static enum step front_forward_as_is(
    struct client *client, struct server *server, const struct message *m)
{
	if (pipeline_owe(&server->pipeline, m->type, OWED_CLIENT, 0) < 0) {
		server_retire(server, "out of memory");
		client_fatal(client, ERROR_OUT_OF_MEMORY);
		return STEP_CLOSE;
	}
	put_to_server(client, server, m->block, m->bytes, m->have);
	return STEP_NEXT;
}

static enum step front_forward_statement(
    struct client *client, struct server *server, const struct message *m)
{
	enum step step = STEP_NEXT;
	size_t rest = 0;

	switch (statements_take(client, server, m, &rest)) {
	case STATEMENT_FORWARD:
		step = front_forward_as_is(client, server, m);
		break;
	case STATEMENT_RENAMED:
		put_to_server(
		    client, server, m->block, m->bytes + rest, m->have - rest);
		break;
	case STATEMENT_DONE:
		break;
	case STATEMENT_MORE:
		return STEP_MORE;
	case STATEMENT_WAIT:
		server->holds_back = server->holds_to_sync = true;
		return STEP_PARK;
	case STATEMENT_BROKEN:
		return STEP_CLOSE;
	}
	statements_make_up(client, server);
	return step;
}

static bool names_statement(uint8_t type)
{
	return type == 'P' || type == 'B' || type == 'D' || type == 'C' || type == 'Q';
}

/* What comes behind it depends on its outcome: on which statements there still are, on
 * which parameters are brought back. */
static bool must_hold_back(const struct server *server, const struct message *m)
{
	switch (m->type) {
	case 'Q':
		return server->reset ||
		       prepared_is_forgetting(
			   (const char *)m->bytes + 5, m->have > 5 ? m->have - 5 : 0);
	case 'S':
		return server->reset != 0;
	case 'E':
		return server->has_forgetting_portal;
	default:
		return false;
	}
}

static void hold_back(struct server *server, const struct message *m)
{
	static const uint8_t flush[] = {'H', 0, 0, 0, 4};
	/* without it the answer to an Execute would wait for the client's Sync */
	if (m->type == 'E')
		stream_put(&server->conn.stream, NULL, flush, sizeof(flush));
	server->holds_back = true;
}

/* What the client waited for is known: it goes on. */
static void back_let_go(struct server *server, struct client *client)
{
	bool is_over = server->holds_to_sync ? server->pipeline.syncs == 0
					     : pipeline_count(&server->pipeline) == 0;
	if (!server->holds_back || !is_over)
		return;
	server->holds_back = server->holds_to_sync = false;
	conn_unpark(&client->conn);
}

static enum step front_forward(
    struct client *client, struct server *server, const struct message *m)
{
	bool begins = server->is_ready || server->idle_xact_us;
	enum step step;

	if (m->type == 'E' && server->has_forgetting_portal && !message_is_whole(m))
		return STEP_MORE;
	if (m->type == 'Q' || m->type == 'P')
		params_note_query(server, m);
	if (names_statement(m->type) && statements_are_tracked(client, server))
		step = front_forward_statement(client, server, m);
	else
		step = front_forward_as_is(client, server, m);
	if (step == STEP_NEXT && must_hold_back(server, m) &&
	    pipeline_count(&server->pipeline) > 0)
		hold_back(server, m);
	if (step == STEP_NEXT) {
		front_began(client, server, begins);
		server->seat.pool->stats.bytes_received += m->size;
	}
	return step;
}

/* COPY messages while nothing is owed: the COPY has failed, and the server would ignore
 * them.  Its end may be all the server had to wait for. */
static enum step front_drop_copy(
    struct client *client, struct server *server, const struct message *m)
{
	struct pipeline *pipeline = &server->pipeline;
	bool was_settled = pipeline_is_settled(pipeline);

	client->is_dropping = true;
	if (pipeline_owe(pipeline, m->type, OWED_CLIENT, 0) == 0 && !was_settled)
		back_ready(server, client);
	return STEP_NEXT;
}

static enum step front_unknown(struct client *client, const struct message *m)
{
	conn_log(&client->conn, LEVEL_ERROR, "unknown pkt from client: %u/0x%x",
	    m->type, m->type);
	client_fatal(client, ERROR_UNKNOWN_PACKET);
	return STEP_CLOSE;
}

static enum step front_message(struct conn *conn, const struct message *m)
{
	struct client *client = conn_client(conn);
	const struct message_row *row = message_front(m->type);
	struct server *server;

	client->is_dropping = false;
	client->request.ask.last_us = conn_now(conn);
	if (!(row->flags & MSG_KNOWN) || (row->flags & MSG_LOGIN))
		return front_unknown(client, m);
	if (m->type == 'X') {
		conn_doom(conn, "client close request");
		return STEP_CLOSE;
	}
	if (m->type == 'Q' && site_settings(conn->site)->disable_pqexec) {
		conn_log(conn, LEVEL_ERROR, "client used \"Query\" packet type");
		client_fatal(client, ERROR_PQEXEC_DISALLOWED);
		return STEP_CLOSE;
	}
	if (client->is_canceled || client->is_skipping)
		return front_answer_cancel(client, m);

	server = client_server(client);
	if (!server) {
		/* nothing runs: late COPY messages and Flush mean nothing */
		if (m->type == 'H' || (row->flags & MSG_COPY))
			return front_drop(client);
		front_begin(client);
		enum step step = front_acquire(client);
		if (step != STEP_NEXT)
			return step;
		server = client_server(client);
	} else if (server->is_applying || server->holds_back) {
		return STEP_PARK;
	} else if ((row->flags & MSG_COPY) && pipeline_count(&server->pipeline) == 0) {
		return front_drop_copy(client, server, m);
	} else if (!(row->flags & MSG_COPY) && m->type != 'H') {
		front_begin(client);
	}
	return front_forward(client, server, m);
}

static enum step front_part(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len)
{
	struct client *client = conn_client(conn);
	struct server *server = client_server(client);
	if (client->is_dropping || !server)
		return STEP_NEXT;
	put_to_server(client, server, block, p, len);
	/* the answer may have been quicker than the rest of the message */
	if (conn->passing == 0 && !server->is_ready && !server->idle_xact_us &&
	    pipeline_is_settled(&server->pipeline))
		back_ready(server, client);
	return STEP_NEXT;
}

/* Part of a message that the server gets is still to come. */
static bool is_within_message(const struct client *client)
{
	return client->conn.passing > 0 && !client->is_dropping;
}

static void front_ended(struct conn *conn, const struct err *err)
{
	conn_doom(conn, err ? "unexpected eof" : "client unexpected eof");
}

/* The client leaves a linked server: back to the pool if it is good, else closed. */
static void front_leave_server(struct client *client, struct server *server)
{
	server->is_cut = is_within_message(client);
	relay_unlink(client, server);
	if (!server->conn.is_doomed && server->is_ready &&
	    pipeline_is_settled(&server->pipeline) &&
	    stream_pending(&server->conn.stream) == 0 && server->conn.passing == 0 &&
	    !is_within_message(client)) {
		broker_give(server);
		return;
	}
	if (!server->is_ready)
		server_retire(server, "client disconnect while server was not ready");
	else if (!pipeline_is_settled(&server->pipeline))
		server_retire(server, "client disconnected with query in progress");
	else
		server_retire(server,
		    "client disconnect before everything was sent to the server");
	server_rest(server, 0);
	pool_abandon(&server->seat, conn_now(&client->conn));
}

static void front_closed(struct conn *conn, const char *reason)
{
	struct client *client = conn_client(conn);
	struct server *server = client_server(client);
	(void)reason;
	if (server)
		front_leave_server(client, server);
	client_leave(client);
}

static const struct conn_ops front_ops = {
    .name = "relay",
    .message = front_message,
    .part = front_part,
    .writable = front_writable,
    .expired = clocks_client_expired,
    .review = clocks_review,
    .malformed = client_malformed,
    .ended = front_ended,
    .closed = front_closed,
};

/* ---- server to client ---- */

/* Our SETs were answered. */
static enum step back_applied(struct server *server, struct client *client)
{
	if (params_applied(server, client) < 0)
		return STEP_CLOSE;
	conn_unpark(&client->conn);
	return STEP_NEXT;
}

static void back_end_query(struct server *server, struct client *client, uint64_t now)
{
	struct ask *ask = &client->request.ask;
	struct stats *stats = &server->seat.pool->stats;

	if (ask->query_us)
		stats->query_time_us += now - ask->query_us;
	ask->query_us = 0;
	if (server->status != 'I') {
		server->idle_xact_us = now;
		return;
	}
	if (client->xact_us)
		stats->xact_time_us += now - client->xact_us;
	client->xact_us = 0;
	server->idle_xact_us = 0;
	server->is_ready = true;
}

/* All the client asked for is answered. */
static enum step back_settled(struct server *server, struct client *client)
{
	int mode = pool_mode(server->seat.pool);

	back_end_query(server, client, server->last_us);
	if (server->status == 'I' && mode != POOL_MODE_SESSION &&
	    !server->seat.is_replication) {
		relay_unlink(client, server);
		broker_give(server);
		if (!client->conn.is_doomed)
			clocks_arm_rest(client);
		return STEP_NEXT;
	}
	if (mode == POOL_MODE_STATEMENT) {
		server_retire(server, error_text(ERROR_STATEMENT_TRANSACTION));
		return STEP_CLOSE;
	}
	if (server->is_ready && server->seat.is_dirty &&
	    site_settings(server->conn.site)->server_fast_close) {
		server_retire(server, "database configuration changed");
		return STEP_CLOSE;
	}
	if (server->is_ready && server->wants_apply) {
		server->wants_apply = false;
		if (params_apply(server, client))
			return STEP_NEXT;
	}
	clocks_arm_query(server, client);
	return STEP_NEXT;
}

static enum step back_ready(struct server *server, struct client *client)
{
	if (server->is_applying)
		return back_applied(server, client);
	if (is_within_message(client))
		return STEP_NEXT;
	if (pipeline_is_settled(&server->pipeline))
		return back_settled(server, client);
	if (pipeline_is_uncertain(&server->pipeline))
		server_query(server, "");
	return STEP_NEXT;
}

/* What must be read of a message before it goes on.  -1: the server was doomed. */
static int back_read(
    struct server *server, struct client *client, const struct message *m)
{
	if (m->type == 'S')
		return params_report(server, client, m);
	if (m->type == 'C' && params_is_reset(m))
		params_note_reset(server, m);
	if (m->type == 'E' && server->is_applying)
		params_failed(server, m);
	if (m->type != 'Z')
		return 0;
	if (codec_read_ready(message_body(m), message_body_len(m), &server->status) ==
	    0)
		return 0;
	server_protocol_error(server, "bad packet");
	return -1;
}

static bool is_looked_at(const struct server *server, const struct message *m)
{
	uint8_t type = m->type;
	return type == 'Z' || type == 'S' || (type == 'E' && server->is_applying) ||
	       (type == 'C' && params_is_reset(m)) || statements_want_whole(server, m);
}

static enum step back_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	struct client *client = server_client(server);
	struct pipeline_entry done;
	enum answer answer;

	if (is_looked_at(server, m)) {
		if (!message_is_whole(m) && m->size <= LOOKED_AT_MAX)
			return STEP_MORE;
		if (m->size > LOOKED_AT_MAX) {
			server_protocol_error(server, "bad pkt header");
			return STEP_CLOSE;
		}
		if (back_read(server, client, m) < 0)
			return STEP_CLOSE;
	}
	server->last_us = conn_now(conn);
	server->is_dropping = false;
	answer = pipeline_answer(
	    &server->pipeline, m->type, m->type == 'Z' ? server->status : 0, &done);
	if (answer == ANSWER_SWALLOW && statements_is_for_client(m, &done))
		answer = ANSWER_FORWARD;
	switch (answer) {
	case ANSWER_FORWARD:
		server->seat.pool->stats.bytes_sent += m->size;
		if (m->type == 'Z')
			params_settle(server, client);
		if (!statements_answered(client, server, m, &done))
			put_to_client(client, server, m->block, m->bytes, m->have);
		break;
	case ANSWER_SWALLOW:
		server->is_dropping = true;
		statements_answered(client, server, m, &done);
		break;
	case ANSWER_BROKEN:
		conn_log(conn, LEVEL_ERROR, "unexpected pkt from server: '%c'",
		    m->type >= 32 && m->type < 127 ? m->type : '?');
		server_protocol_error(server, error_text(ERROR_UNKNOWN_PACKET));
		return STEP_CLOSE;
	}
	statements_make_up(client, server);
	back_let_go(server, client);
	return m->type == 'Z' ? back_ready(server, client) : STEP_NEXT;
}

static enum step back_part(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len)
{
	struct server *server = conn_server(conn);
	struct client *client = server_client(server);
	if (!server->is_dropping && client)
		put_to_client(client, server, block, p, len);
	return STEP_NEXT;
}

static void back_closed(struct conn *conn, const char *reason)
{
	struct server *server = conn_server(conn);
	struct client *client = server_client(server);
	if (client) {
		client_fatal_text(client, "08P01", reason);
		server->is_cut = is_within_message(client);
		relay_unlink(client, server);
	}
	server_leave(server, reason);
}

static const struct conn_ops back_ops = {
    .name = "relay",
    .message = back_message,
    .part = back_part,
    .writable = back_writable,
    .expired = clocks_server_expired,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = back_closed,
};

/* ---- the service ---- */

static void relay_adopt(struct client *client)
{
	const struct welcome *welcome = broker_welcome(client->request.ask.pool);
	const char *notice = site_settings(client->conn.site)->login_notify_message;
	struct buf buf;

	client->conn.ops = &front_ops;
	client->request.ops = &relay_request_ops;
	buf_init(&buf, 0);
	if (welcome) {
		buf_put(&buf, welcome->untracked.bytes, welcome->untracked.len);
		vars_put_status(&client->vars, &welcome->vars, &buf);
		params_fill(client, &welcome->vars);
	}
	codec_put_backend_key(&buf, client->cancel_key, CANCEL_KEY_LEN);
	if (notice && *notice)
		codec_put_notice(&buf, "NOTICE", "00000", notice, NULL);
	codec_put_ready(&buf, 'I');
	conn_send(&client->conn, &buf);
	buf_done(&buf);
	client->request.ask.last_us = conn_now(&client->conn);
	clocks_arm_rest(client);
}

const struct service relay_service = {
    .name = "relay",
    .adopt = relay_adopt,
};
