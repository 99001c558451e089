/*
 * Cleans up a server whose client has vanished, in three steps: wait until everything
 * owed is answered and no cancel request is being sent; roll back and deallocate
 * prepared statements by a query; give the server back to the pool, which resets it.
 */
#include "cancel/drain.h"

#include "broker/broker.h"
#include "cancel/cancel.h"
#include "session/server.h"
#include "wire/codec.h"
#include "wire/prepared.h"

enum { PARAMETER_MAX = 1024 * 1024 };

/* A cancel request that arrives before the server has begun the query has no effect, so
 * it is repeated.  This is the first pause in between; the pauses grow. */
enum { LEAST_PAUSE_US = 20000 };

static const struct conn_ops drain_ops;

bool drain_is_wanted(const struct server *server)
{
	const struct pipeline *owed = &server->pipeline;

	return scope_client_disconnect(scope_of_pool(server->slot.pool)) ==
		   CLIENT_DISCONNECT_CANCEL &&
	       !server->slot.is_replication && !server->dial && server->key &&
	       !owed->is_lost && server->conn.site->shutdown != SHUTDOWN_NOW;
}

/* Sends what the client would have to send to end a COPY. */
static void drain_end_copy(struct server *server)
{
	static const uint8_t fail[] = {'f', 0, 0, 0, 5, 0};
	struct pipeline *owed = &server->pipeline;

	if (pipeline_is_copy_in(owed)) {
		stream_put(&server->conn.stream, NULL, fail, sizeof(fail));
		if (pipeline_owe(owed, 'f', OWED_SELF, 0) < 0)
			server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	}
	if (pipeline_must_ask(owed))
		server_ask(server);
}

/* Something has ended: takes the next step. */
static void drain_go_on(struct server *server)
{
	if (server->conn.is_doomed || !pipeline_is_settled(&server->pipeline))
		return;
	if (server->is_drained) {
		/* if session_state is not forward, all session state is reset, even
		 * kinds that were not noticed; otherwise the pool's reset query is run,
		 * if there is one */
		struct scope scope = scope_of_pool(server->slot.pool);
		const char *reset = scope_server_reset_query(scope);
		server->is_drained = server->is_left = false;
		server->is_ready = true;
		if ((reset && *reset) ||
		    scope_session_state(scope) != SESSION_STATE_FORWARD)
			server->slot.needs_reset = true;
		broker_give(server);
		return;
	}
	/* a cancel request being sent could hit the query that is sent next */
	if (!list_is_empty(&server->cancels)) {
		server_review_cancels(server);
		return;
	}
	server->is_drained = true;
	server_query(server,
	    server->status == 'I' ? "DEALLOCATE ALL" : "ROLLBACK; DEALLOCATE ALL");
}

/* -1: the server is about to be closed. */
static int drain_read(struct server *server, const struct message *m)
{
	if (m->type == 'S')
		return server_note_parameter(server, m, NULL, NULL);
	if (m->type == 'E' && server->is_drained) {
		server_retire(server, "rollback failed");
		return -1;
	}
	if (m->type == 'Z' && codec_read_ready(message_body(m), message_body_len(m),
				  &server->status) < 0) {
		server_unreadable(server, m);
		return -1;
	}
	if (server_has_forgotten(m))
		prepared_set_clear(&server->statements);
	return 0;
}

static enum step drain_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	struct pipeline_entry made_up;
	bool is_read = m->type == 'S' || m->type == 'Z';

	if (server_wants_tag(m))
		return STEP_MORE;
	if (is_read && !message_is_whole(m)) {
		if (m->size <= PARAMETER_MAX)
			return STEP_MORE;
		server_log_header(server, m->bytes, m->have);
		server_protocol_error(server, error_text(ERROR_SERVER_BAD_HEADER));
		return STEP_CLOSE;
	}
	server->last_us = conn_now(conn);
	if (drain_read(server, m) < 0)
		return STEP_CLOSE;
	if (pipeline_answer(&server->pipeline, m->type,
		m->type == 'Z' ? server->status : 0, NULL) == ANSWER_BROKEN) {
		server_unexpected(server, m, error_text(ERROR_UNKNOWN_PACKET));
		return STEP_CLOSE;
	}
	while (pipeline_next_made_up(&server->pipeline, &made_up))
		;
	drain_end_copy(server);
	if (m->type == 'Z')
		drain_go_on(server);
	return server->conn.is_doomed ? STEP_CLOSE : STEP_NEXT;
}

/* When the clean-up is given up. */
static uint64_t drain_due(const struct server *server)
{
	uint64_t limit = scope_cancel_wait_timeout(scope_of_pool(server->slot.pool));

	return limit ? server->left_us + limit : UINT64_MAX;
}

/* A cancel request for the server has ended. */
static void drain_review(struct conn *conn)
{
	struct server *server = conn_server(conn);
	uint64_t now = conn_now(conn), pause = now - server->left_us;
	uint64_t due = drain_due(server);

	if (!conn->is_doomed && !pipeline_is_settled(&server->pipeline) &&
	    list_is_empty(&server->cancels)) {
		uint64_t again =
		    now + (pause > LEAST_PAUSE_US ? pause : LEAST_PAUSE_US);
		conn_set_deadline(conn, again < due ? again : due);
		return;
	}
	drain_go_on(server);
}

static void drain_expired(struct conn *conn)
{
	struct server *server = conn_server(conn);

	if (conn_now(conn) >= drain_due(server)) {
		server_retire(server, "cancel_wait_timeout");
		return;
	}
	conn_set_deadline(conn, drain_due(server));
	if (!server->is_drained && list_is_empty(&server->cancels))
		cancel_left(server);
}

static void drain_closed(struct conn *conn, const char *reason)
{
	server_leave(conn_server(conn), reason);
}

static const struct conn_ops drain_ops = {
    .name = "drain",
    .message = drain_message,
    .part = conn_ignore_part,
    .review = drain_review,
    .expired = drain_expired,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = drain_closed,
};

void drain_begin(struct server *server)
{
	struct pipeline_entry made_up;

	conn_log(&server->conn, LEVEL_DEBUG | KIND_DISCONNECTIONS,
	    "client disconnected while server was not ready, tidying up");
	server->left_us = conn_now(&server->conn);
	conn_hand_on(&server->conn, &drain_ops);
	conn_set_deadline(&server->conn, drain_due(server));
	pipeline_on_drop(&server->pipeline, NULL, NULL);
	pool_orphan(&server->slot, server->left_us);
	server->is_left = true;
	server->is_drained = server->is_ready = false;
	while (pipeline_next_made_up(&server->pipeline, &made_up))
		;
	if (!pipeline_is_settled(&server->pipeline)) {
		drain_end_copy(server);
		/* the last message of the client may not have been a Sync */
		if (server_sync(server) < 0)
			server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
		cancel_left(server);
	}
	drain_go_on(server);
}
