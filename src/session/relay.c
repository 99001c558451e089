/*
 * One client linked to one server: what the client says, with and without a server; the
 * service of ordinary databases.  The hot path.  It keeps no bytes: they go from block
 * to socket.  What the server says is back's.
 */
#include "session/relay.h"

#include "session/back.h"
#include "session/broker.h"
#include "session/client.h"
#include "session/clocks.h"
#include "session/forward.h"
#include "session/leaks.h"
#include "session/params.h"
#include "session/server.h"
#include "session/sql_statements.h"
#include "session/statements.h"
#include "session/unnamed.h"
#include "wire/codec.h"
#include "wire/message.h"

/* Texts up to this size are looked at whole; for a part of one no server is taken. */
enum { WHOLE_TEXT_MAX = 16 * 1024 };

/* ---- linking ---- */

/* The pool has linked them: make the server ours and bring it to the client's
 * parameters. True when the client must wait until those are applied. */
static bool relay_link(struct client *client, struct server *server)
{
	server->conn.ops = &back_ops;
	conn_set_deadline(&client->conn, 0);
	conn_set_deadline(&server->conn, 0);
	statements_link(server);
	server->wants_apply = false;
	server->apply_local = 0;
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

	enum ask_kind kind = client->replication ? ASK_REPLICATION : ASK_QUERY;
	switch (broker_ask(&client->request, kind, &sqlstate, &text)) {
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

/* ---- flow control ---- */

static void front_writable(struct conn *conn)
{
	struct client *client = conn_client(conn);
	struct server *server = client_server(client);

	if (client->waits_to_drain) {
		client->waits_to_drain = false;
		conn_unpark(conn);
	}
	if (server && server->is_held) {
		server->is_held = false;
		conn_resume(&server->conn);
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

/* What comes next hangs on how a COPY ends, and that may have to be flushed out. */
static enum step front_wait_for_copy(struct server *server, const struct message *m)
{
	static const uint8_t flush[] = {'H', 0, 0, 0, 4};

	stream_put(&server->conn.stream, NULL, flush, sizeof(flush));
	server->holds_back = server->holds_for_copy = true;
	server->held_type = m->type;
	return STEP_PARK;
}

/* What PostgreSQL would ignore: COPY messages while nothing is owed, for the COPY they
 * were meant for has failed; and behind an error all up to the next Sync. */
static bool is_ignored(const struct server *server, const struct message *m)
{
	if (pipeline_is_skipping(&server->pipeline))
		return m->type != 'S';
	return pipeline_count(&server->pipeline) == 0 &&
	       message_front(m->type)->flags & MSG_COPY;
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
	if ((m->type == 'Q' || m->type == 'P') && !message_is_whole(m) &&
	    m->size <= WHOLE_TEXT_MAX)
		return STEP_MORE;
	/* Answers that we make up are held back by no server. */
	if (!(row->flags & MSG_COPY) && stream_is_above_high(&conn->stream)) {
		client->waits_to_drain = true;
		return STEP_PARK;
	}

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
	} else if (server->dial || server->is_applying || server->holds_back ||
		   server->is_trying_again) {
		return STEP_PARK;
	} else if (pipeline_must_wait(&server->pipeline, m->type)) {
		return front_wait_for_copy(server, m);
	} else if (is_ignored(server, m)) {
		return front_drop(client);
	} else if (!forward_may_go_on(server)) {
		return forward_hold(server);
	} else if (!(row->flags & MSG_COPY) && m->type != 'H') {
		front_begin(client);
	}
	return forward_message(client, server, m);
}

static enum step front_part(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len)
{
	struct client *client = conn_client(conn);
	struct server *server = client_server(client);
	if (client->is_dropping || !server)
		return STEP_NEXT;
	forward_bytes(client, server, block, p, len);
	if (conn->passing == 0)
		back_ask(server, client);
	/* the answer may have been quicker than the rest of the message */
	if (conn->passing == 0 && !server->is_ready && !server->idle_xact_us &&
	    pipeline_is_settled(&server->pipeline))
		back_ready(server, client);
	return STEP_NEXT;
}

static void front_ended(struct conn *conn, const struct err *err)
{
	conn_doom(conn, err ? "unexpected eof" : "client unexpected eof");
}

/* The client leaves a linked server: back to the pool if it is good, else closed. */
static void front_leave_server(struct client *client, struct server *server)
{
	server->is_cut = client_is_within_message(client);
	back_unlink(client, server);
	if (!server->conn.is_doomed && server->is_ready &&
	    pipeline_is_settled(&server->pipeline) &&
	    stream_pending(&server->conn.stream) == 0 && server->conn.passing == 0 &&
	    !client_is_within_message(client)) {
		leaks_release(server);
		broker_give(server);
		return;
	}
	if (server->seat.is_replication)
		server_retire(server, "replication client disconnected");
	else if (!server->is_ready)
		server_retire(server, "client disconnect while server was not ready");
	else if (!pipeline_is_settled(&server->pipeline))
		server_retire(server, "client disconnected with query in progress");
	else
		server_retire(server,
		    "client disconnect before everything was sent to the server");
	if (!server->dial)
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
	unnamed_forget(client);
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

/* ---- the service ---- */

static void relay_adopt(struct client *client)
{
	const struct welcome *welcome = broker_welcome(client->request.ask.pool);
	const char *notice = site_settings(client->conn.site)->login_notify_message;
	const uint8_t *key;
	size_t key_len;
	struct buf buf;

	client->conn.ops = &front_ops;
	client->request.ops = &relay_request_ops;
	buf_init(&buf, 0);
	if (welcome) {
		buf_put(&buf, welcome->untracked.bytes, welcome->untracked.len);
		vars_put_status(&client->vars, &welcome->vars, &buf);
		/* Values it did not ask for are those it is told now: a server that
		 * another client changed is brought back to them. */
		vars_fill(&client->vars, &welcome->vars);
	}
	key = client_cancel_key(client, &key_len);
	codec_put_backend_key(&buf, key, key_len);
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
