/*
 * The server's side of a relay.  The ledger checks each message, which then goes to the
 * client or is swallowed; at the end the server is given back.  This code runs for
 * every message, so of contents it reads as little as possible.
 */
#include "relay/back.h"

#include <string.h>

#include "broker/broker.h"
#include "relay/batch.h"
#include "relay/begin.h"
#include "relay/clocks.h"
#include "relay/forward.h"
#include "relay/link.h"
#include "relay/listen.h"
#include "relay/listen_fence.h"
#include "relay/listen_hub.h"
#include "relay/params.h"
#include "relay/pin_question.h"
#include "relay/replay.h"
#include "relay/resets.h"
#include "relay/schema.h"
#include "relay/session_state.h"
#include "relay/slow_log.h"
#include "relay/sql_statements.h"
#include "relay/statements.h"
#include "relay/vacate.h"
#include "session/server_role.h"
#include "wire/codec.h"
#include "wire/prepared.h"

/* The longest message of a server that is looked at as a whole. */
enum { LOOKED_AT_MAX = 1024 * 1024 };
/* So many bytes of an error have its severity, which PostgreSQL sends first. */
enum { SEVERITY_WITHIN = 128 };
/* How long the pooler's own SET may keep a client from being moved. */
enum { APPLY_PATIENCE_US = 10000 };
static enum step back_settled(struct server *server, struct client *client);
static void back_replace(struct server *server, const char *reason);

/* ---- flow control ---- */

static void back_writable(struct conn *conn)
{
	struct server *server = conn_server(conn);
	struct client *client = server_client(server);
	if (client && server->link.holds_client) {
		server->link.holds_client = false;
		conn_resume(&client->conn);
	}
}

static void put_to_client(struct client *client, struct server *server,
    struct block *block, const uint8_t *p, size_t len)
{
	if (client->conn.is_doomed)
		return;
	stream_put(&client->conn.stream, block, p, len);
	if (!stream_is_above_high(&client->conn.stream) || server->link.holds_server)
		return;
	stream_flush(&client->conn.stream);
	if (stream_is_above_high(&client->conn.stream)) {
		server->link.holds_server = true;
		conn_pause(&server->conn);
	}
}

/* A COPY has failed: asks how many of the messages that were sent belonged to it.  Or a
 * BEGIN was refused, behind which the server skips what was sent. */
static void back_ask(struct server *server, struct client *client)
{
	if (pipeline_must_ask(&server->pipeline) && !client_is_sending_message(client))
		server_ask(server);
	begin_go_on(server, client);
}

/* ---- server to client ---- */

/* Asks the server about what the client may have changed, or sets in a block what a
 * RESET has brought back.  True: its answer is waited for. */
static bool back_asks(struct server *server, struct client *client)
{
	return (server->status == 'T' && server->link.params.wants_apply &&
		   params_apply_again(server, client)) ||
	       (server->link.params.settling.unsettled && resets_ask(server, client)) ||
	       (pin_question_is_due(server) && pin_question_ask(server, client, false));
}

/* The client's ReadyForQuery has waited for an answer, or it was told already. */
static enum step back_owed(struct server *server, struct client *client)
{
	static const uint8_t ready[][6] = {
	    {'Z', 0, 0, 0, 5, 'I'}, {'Z', 0, 0, 0, 5, 'T'}, {'Z', 0, 0, 0, 5, 'E'}};
	int i = server->status == 'I' ? 0 : server->status == 'T' ? 1 : 2;
	enum step step;

	if (server->link.params.owes_ready)
		put_to_client(client, server, NULL, ready[i], sizeof(ready[i]));
	server->link.params.owes_ready = false;
	step = back_settled(server, client);
	conn_unpark(&client->conn);
	return step;
}

/* The server has told what the pooler has asked it behind a transaction, which
 * parameters are set or what is left in the session; or the fence has come. */
static enum step back_told(struct server *server, struct client *client)
{
	bool has_ready = !server->link.params.owes_ready;
	int asked;

	if (server->link.params.is_fenced) {
		server->link.params.is_fenced = server->link.params.is_applying = false;
		server->is_ready = server->status == 'I';
		listen_end_transaction(server, client);
		asked = back_asks(server, client);
	} else if (server->link.params.settling.sources) {
		asked = resets_sourced(server, client);
		if (!asked && pin_question_is_due(server))
			asked = pin_question_ask(server, client, has_ready);
	} else {
		asked = pin_question_answered(server, client, has_ready);
	}
	if (asked)
		return asked < 0 ? STEP_CLOSE : STEP_NEXT;
	return back_owed(server, client);
}

/* The pooler's SETs were answered. */
static enum step back_applied(struct server *server, struct client *client)
{
	if (!pipeline_is_settled(&server->pipeline) || server->fence.is_waited_for)
		return STEP_NEXT;
	if (server->link.params.settling.sources || server->link.params.is_fenced ||
	    (server->link.pin.is_asking && !server->link.pin.is_of_own))
		return back_told(server, client);
	if (server->link.pin.is_asking) {
		int asked = pin_question_answered(server, client, true);
		if (asked)
			return asked < 0 ? STEP_CLOSE : STEP_NEXT;
	}
	if (server->link.params.wants_apply && params_apply_again(server, client))
		return STEP_NEXT;
	int failed = params_applied(server, client);
	if (failed > 0 && server->link.params.refusal.max) {
		link_end(client, server);
		broker_give(server);
		return STEP_NEXT;
	}
	if (failed > 0)
		back_replace(server, error_text(ERROR_INVALID_SERVER_PARAMETER));
	if (failed)
		return STEP_CLOSE;
	if (server->link.params.owes_ready)
		return back_owed(server, client);
	/* the query was cancelled in the meantime, or there was nothing to run; if it
	 * was the first one of a block, this server does not know the block, and what
	 * the client sends until it ends it is answered without one, if it can be */
	enum step step = STEP_NEXT;
	if (client->is_canceled || !client->conn.is_parked ||
	    (client->block.state == BLOCK_FAILED && !server->link.params.is_for_failed))
		step = back_settled(server, client);
	conn_unpark(&client->conn);
	return step;
}

static void back_end_query(struct server *server, struct client *client, uint64_t now)
{
	struct pool_request *request = &client->request.in_pool;
	struct pool *pool = server->slot.pool;
	bool is_single = server->status == 'I' && request->query_us == client->xact_us;

	if (client->slow_log)
		slow_log_answered(client, server, now);
	if (request->query_us) {
		pool->stats.query_time_us += now - request->query_us;
		if (is_single)
			latency_add_single(&pool->latency, now - request->query_us);
		else
			latency_add(
			    &pool->latency, LATENCY_QUERY, now - request->query_us);
	}
	request->query_us = 0;
	if (server->status != 'I') {
		server->link.idle_xact_us = now;
		return;
	}
	if (client->xact_us) {
		pool->stats.xact_time_us += now - client->xact_us;
		if (!is_single)
			latency_add(
			    &pool->latency, LATENCY_TRANSACTION, now - client->xact_us);
	}
	client->xact_us = 0;
	server->link.idle_xact_us = 0;
	server->is_ready = true;
}

/* The client keeps its server. */
static enum step back_stay(struct server *server, struct client *client)
{
	if (server->is_ready && server->slot.dirty > DIRTY_SURPLUS &&
	    scope_server_fast_close(scope_of_pool(server->slot.pool))) {
		server_retire(server, error_text(ERROR_DATABASE_CHANGED));
		return STEP_CLOSE;
	}
	if (server->status != 'E' && server->link.params.wants_apply &&
	    params_apply_again(server, client)) {
		clocks_arm_link(server, client);
		return STEP_NEXT;
	}
	clocks_arm_link(server, client);
	listen_table_flush(client);
	return STEP_NEXT;
}

/* Everything that the client asked for is answered. */
static enum step back_settled(struct server *server, struct client *client)
{
	int mode = server->slot.is_replication ? POOL_MODE_SESSION
					       : pool_mode(server->slot.pool);

	back_end_query(server, client, server->last_us);
	session_state_settle(server);
	schema_settle(server);
	vacate_settle(server);
	if (server->status == 'I' && pin_question_is_due(server) &&
	    pin_question_ask(server, client, true)) {
		clocks_arm_link(server, client);
		return STEP_NEXT;
	}
	if (server->status == 'I' && mode != POOL_MODE_SESSION) {
		if (server->link.pin.kinds && session_state_are_kept(server)) {
			server->link.pin.transactions++;
			return back_stay(server, client);
		}
		bool becomes_listener = server->link.pin.becomes_listener;
		link_end(client, server);
		if (becomes_listener) {
			listen_hub_begin(server, client->listening);
		} else {
			session_state_release(server);
			broker_give(server);
		}
		listen_table_flush(client);
		if (!client->conn.is_doomed)
			clocks_arm_rest(client);
		return STEP_NEXT;
	}
	return back_stay(server, client);
}

/* Nothing more is owed, or what the client waits for has come: gives the server back if
 * the client does not need it any more. */
static enum step back_ready(struct server *server, struct client *client)
{
	if (server->link.params.is_applying)
		return back_applied(server, client);
	server->link.ready_came_early = client_is_sending_message(client);
	if (server->link.ready_came_early)
		return STEP_NEXT;
	return pipeline_is_settled(&server->pipeline) ? back_settled(server, client)
						      : STEP_NEXT;
}

/* Reads what the pooler needs of a message.  -1: the server is doomed. */
static int back_read(
    struct server *server, struct client *client, const struct message *m)
{
	if (m->type == 'S')
		return params_report(server, client, m);
	if (m->type == 'D' && server->link.params.settling.sources)
		resets_note_source(server, m);
	else if (m->type == 'E' && server->link.params.settling.sources)
		resets_note_error(server, m);
	else if (m->type == 'D' && pin_question_is_next(server))
		pin_question_note_row(server, m);
	else if (m->type == 'E' && pin_question_is_next(server))
		pin_question_note_error(server, m);
	else if (m->type == 'E' && server->link.params.is_applying) {
		if (params_failed(server, m))
			put_to_client(client, server, m->block, m->bytes, m->have);
	} else if (m->type == 'E')
		server_role_doubt(server, m);
	if (m->type != 'Z')
		return 0;
	if (codec_read_ready(message_body(m), message_body_len(m), &server->status) <
	    0) {
		server_unreadable(server, m);
		return -1;
	}
	server->noted = 0;
	if (server->status == 'I')
		schema_note_ready(server);
	/* the client gets an error instead of this ReadyForQuery */
	if (server->status != 'I' && !server->slot.is_replication &&
	    pool_mode(server->slot.pool) == POOL_MODE_STATEMENT) {
		server_retire(server, error_text(ERROR_STATEMENT_TRANSACTION));
		return -1;
	}
	return 0;
}

/* May the server listen for its client, in a function perhaps? */
static bool listens(const struct server *server)
{
	return (server->link.pin.made | server->link.pin.kinds) &
	       (LEAK_BIT(LISTEN) | LEAK_UNSEEN);
}

static bool is_looked_at(const struct server *server, const struct message *m)
{
	uint8_t type = m->type;
	return type == 'Z' || type == 'S' || (type == 'A' && listens(server)) ||
	       (type == 'E' &&
		   (server->link.params.is_applying || server->link.begin_type)) ||
	       (type == 'D' && (server->link.params.settling.sources ||
				   server->link.pin.is_asking)) ||
	       server_role_wants_whole(server, m) || replay_may_hold(server, m) ||
	       sql_wants_whole(server, m) || session_state_want_whole(server, m) ||
	       statements_want_whole(server, m);
}

/* The client's last replay failed because of the pooler: it is sent once more when the
 * server has skipped everything up to the Sync. */
static void back_begin_again(struct server *server)
{
	conn_log(&server->conn, LEVEL_DEBUG | KIND_SERVERS,
	    "prepared statement lost, trying again");
	server->link.is_trying_again = true;
	if (server->link.replay->is_ended)
		return;
	if (pipeline_owe(&server->pipeline, 'S', OWED_SELF, 0) < 0)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	server_put_sync(server);
}

static enum step back_try_again(struct server *server, struct client *client)
{
	bool is_ended = server->link.replay->is_ended;
	size_t count, at = 0;
	struct block *block = replay_detach(server, &count);
	struct message m;

	if (!block) {
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
		return STEP_CLOSE;
	}
	while (replay_next(block, count, &at, &m) &&
	       forward_again(client, server, &m) == STEP_NEXT)
		;
	block_unref(block);
	server->link.is_trying_again = false;
	server->link.is_replay_spoilt = !is_ended;
	conn_unpark(&client->conn);
	return server->conn.is_doomed ? STEP_CLOSE : STEP_NEXT;
}

/* Was the server lost before it got anything from its client, and before the client got
 * a part of a message? */
static bool is_unused(const struct server *server)
{
	return server->link.is_fresh && !server->slot.is_replication &&
	       pipeline_may_speak(&server->pipeline);
}

/* After such an error the server closes the connection.  It is for the client, whatever
 * was asked: it tells why the connection ends, and nothing may follow it. */
static bool is_last_word(const struct server *server, const struct message *m)
{
	struct error_fields f;

	if (m->type != 'E' || is_unused(server))
		return false;
	(void)codec_read_error(message_body(m), m->have - 5, &f);
	return strcmp(f.severity, "FATAL") == 0 || strcmp(f.severity, "PANIC") == 0;
}

/* Decides whether a message is forwarded or swallowed. */
static enum answer back_decide(struct server *server, struct client *client,
    const struct message *m, struct pipeline_entry *done)
{
	bool may_hold = replay_may_hold(server, m);
	enum answer answer = pipeline_answer(
	    &server->pipeline, m->type, m->type == 'Z' ? server->status : 0, done);

	/* a client that keeps its server may LISTEN, so notifications are for it at any
	 * time */
	if (answer == ANSWER_SWALLOW &&
	    (statements_is_for_client(server, m, done) || begin_lets_pass(server, m) ||
		(m->type == 'A' && (pool_mode(server->slot.pool) == POOL_MODE_SESSION ||
				       session_state_are_kept(server))) ||
		is_last_word(server, m)))
		answer = ANSWER_FORWARD;
	if (answer != ANSWER_FORWARD)
		return answer;
	if ((server->link.is_trying_again && m->type == 'Z') ||
	    sql_answered(client, server, m, done) != SQL_PASS)
		return ANSWER_SWALLOW;
	if (may_hold) {
		replay_hold(server, m);
		return ANSWER_SWALLOW;
	}
	if (statements_may_try_again(client, server, m, done)) {
		back_begin_again(server);
		return ANSWER_SWALLOW;
	}
	replay_deliver(server); /* no error can follow that would cause a repetition */
	return answer;
}

static enum step back_broken(struct server *server, const struct message *m)
{
	server_unexpected(server, m, error_text(ERROR_UNKNOWN_PACKET));
	return STEP_CLOSE;
}

/* ---- lost servers ---- */

/* The client gets another server.  It only notices a longer wait, so its clocks
 * continue. */
static void back_replace(struct server *server, const char *reason)
{
	struct client *client = server_client(server);
	uint64_t query_us = client->request.in_pool.query_us, xact_us = client->xact_us;

	link_end(client, server);
	client->request.in_pool.query_us = query_us;
	client->xact_us = xact_us;
	server_retire(server, reason);
	server_rest(server, 0);
	pool_lose_unused(&server->slot, conn_now(&server->conn));
	conn_unpark(&client->conn);
}

bool back_loosen(struct client *client)
{
	struct server *server = client_server(client);

	if (!server || !server->link.params.is_applying || !is_unused(server) ||
	    conn_now(&server->conn) - server->link.since_us < APPLY_PATIENCE_US)
		return false;
	back_replace(server, "its SET takes too long for a takeover");
	return true;
}

/* An error of a server that has got nothing from the client: it says why it closes the
 * connection. */
static enum step back_last_words(struct server *server, const struct message *m)
{
	struct error_fields f;

	if (!message_is_whole(m) && m->size <= LOOKED_AT_MAX)
		return STEP_MORE;
	if (message_is_whole(m)) {
		codec_read_error(message_body(m), message_body_len(m), &f);
		conn_log(&server->conn, LEVEL_LOG | KIND_SERVERS, "server said: %s: %s",
		    f.severity, f.message);
	}
	back_replace(server, "idle server got dirty");
	return STEP_CLOSE;
}

static void back_ended(struct conn *conn, const struct err *err)
{
	struct server *server = conn_server(conn);

	if (is_unused(server))
		back_replace(server, error_text(ERROR_SERVER_CRASHED));
	else
		server_ended(conn, err);
}

/* ---- messages ---- */

static void count_sent(struct client *client, struct server *server, uint64_t size)
{
	server->slot.pool->stats.bytes_sent += size;
	if (client->slow_log)
		client->slow_log->sent += size;
}

/* The client is ready.  If it may have reset parameters it hears of that when they are
 * settled. */
static bool back_settles(struct server *server, struct client *client)
{
	bool is_last = !client_is_sending_message(client) &&
		       pipeline_is_settled(&server->pipeline);
	bool is_asking;

	resets_settle(server, client);
	is_asking = is_last && listen_fence_holds(server, client);
	if (!is_asking)
		listen_end_transaction(server, client);
	is_asking = is_asking || (is_last && back_asks(server, client));
	if (is_asking)
		clocks_arm_link(server, client);
	return is_asking;
}

/* Passes on a message that is for the client, or as much of it as has arrived; and
 * whole messages that follow it, in `alike` bytes. */
static void back_deliver(
    struct server *server, struct client *client, const struct message *m, size_t alike)
{
	put_to_client(client, server, m->block, m->bytes, m->have + alike);
	if (!message_is_whole(m))
		pipeline_set_amid(&server->pipeline, true);
}

/* A message was passed on or swallowed: the next answers may be the pooler's, and the
 * client may continue. */
static void back_passed(struct server *server, struct client *client)
{
	if (pipeline_has_made_up(&server->pipeline))
		statements_make_up(client, server);
	link_let_go(server, client);
}

enum step back_go_on(struct server *server, struct client *client)
{
	back_ask(server, client);
	back_passed(server, client);
	/* without a ReadyForQuery that nothing is owed says little: what was sent since
	 * the last Sync has begun a transaction */
	if (!server->link.ready_came_early || !pipeline_may_speak(&server->pipeline))
		return STEP_NEXT;
	return back_ready(server, client);
}

/* Reads what is noted of a message before it is answered for.  STEP_NEXT: the message
 * can be passed on. */
static enum step back_look(
    struct server *server, struct client *client, const struct message *m)
{
	bool wants_severity =
	    m->type == 'E' && !message_is_whole(m) && m->have < SEVERITY_WITHIN;

	if (server_wants_tag(m) || wants_severity)
		return STEP_MORE;
	if (m->type == 'N')
		prepared_journal_tell(
		    server->link.journal, pipeline_head_tag(&server->pipeline));
	if (m->type == 'C' && resets_is_reset(server, m))
		resets_note_reset(server, m);
	else if (server->link.params.was_reset)
		resets_note_outcome(server, m);
	if (m->type == 'C') {
		params_note_tag(server, m);
		schema_note_tag(server, m);
		if (listen_fence_wants_tag(server))
			listen_fence_note_tag(server, m);
	}
	/* what the block has set is undone, and reported */
	if (m->type == 'E' && server->status == 'T')
		server->link.params.may_have_set = true;
	if (!is_looked_at(server, m))
		return STEP_NEXT;
	if (!message_is_whole(m) && m->size <= LOOKED_AT_MAX)
		return STEP_MORE;
	if (m->size > LOOKED_AT_MAX) {
		server_log_header(server, m->bytes, m->have);
		server_protocol_error(server, error_text(ERROR_SERVER_BAD_HEADER));
		return STEP_CLOSE;
	}
	return back_read(server, client, m) < 0 ? STEP_CLOSE : STEP_NEXT;
}

/* Passes a message on to the client, if it is for it.  *is_asking: its ReadyForQuery
 * waits for an answer that the pooler has asked for. */
static enum step back_tell(struct server *server, struct client *client,
    const struct message *m, uint32_t due, bool *is_asking)
{
	struct pipeline_entry done;
	bool is_told = false;
	size_t alike = 0;

	switch (back_decide(server, client, m, &done)) {
	case ANSWER_FORWARD:
		if (m->type == 'd')
			alike = conn_take_alike(&server->conn, m);
		count_sent(client, server, m->size + alike);
		is_told =
		    m->type == 'A' && listens(server) && listen_tell(client, server, m);
		if (m->type == 'Z' && client->listening)
			listen_note_ready(client, server->status);
		*is_asking = m->type == 'Z' && back_settles(server, client);
		is_told = session_state_answered(client, server, m, due) || is_told;
		is_told = statements_answered(client, server, m, &done) || is_told;
		is_told = begin_answered(server, client, m) || is_told;
		/* notifications that come until it is settled change nothing */
		if (*is_asking)
			server->link.params.owes_ready = !is_told;
		if (!is_told && !*is_asking)
			back_deliver(server, client, m, alike);
		break;
	case ANSWER_SWALLOW:
		statements_answered(client, server, m, &done);
		begin_answered(server, client, m);
		if (server->conn.is_doomed)
			return STEP_CLOSE;
		break;
	case ANSWER_BROKEN:
		return back_broken(server, m);
	}
	if (is_last_word(server, m))
		pipeline_finish(&server->pipeline);
	return STEP_NEXT;
}

static enum step back_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	struct client *client = server_client(server);
	uint32_t due = m->type == 'E' ? pipeline_head_tag(&server->pipeline) : 0;
	size_t walked = batch_answers(server, client, m);
	bool is_asking = false;
	enum step step;

	server->last_us = conn_now(conn);
	if (walked) {
		count_sent(client, server, walked);
		put_to_client(client, server, m->block, m->bytes, walked);
		back_passed(server, client);
		return STEP_NEXT;
	}
	/* the pooler's SETs may be answered, and a fence be waited for */
	if (m->type == 'E' && is_unused(server) &&
	    (!server->link.params.is_applying || !pipeline_count(&server->pipeline)))
		return back_last_words(server, m);
	step = back_look(server, client, m);
	if (step == STEP_NEXT)
		step = back_tell(server, client, m, due, &is_asking);
	if (step != STEP_NEXT)
		return step;
	if (m->type == 'Z' && server->link.is_trying_again) {
		if (pipeline_has_made_up(&server->pipeline))
			statements_make_up(client, server);
		return back_try_again(server, client);
	}
	back_ask(server, client);
	back_passed(server, client);
	return m->type == 'Z' && !is_asking ? back_ready(server, client) : STEP_NEXT;
}

static enum step back_part(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len)
{
	struct server *server = conn_server(conn);
	struct client *client = server_client(server);

	if (!client || !server->pipeline.is_amid)
		return STEP_NEXT;
	put_to_client(client, server, block, p, len);
	if (conn->passing > 0)
		return STEP_NEXT;
	pipeline_set_amid(&server->pipeline, false);
	return back_go_on(server, client);
}

static void back_closed(struct conn *conn, const char *reason)
{
	struct server *server = conn_server(conn);
	struct client *client = server_client(server);
	if (client) {
		replay_deliver(server);
		slow_log_end(client, server, "server_closed");
		if (!client->conn.is_doomed)
			conn_linger(&client->conn);
		client_fatal(client, error_of_reason(reason), reason);
		server->is_cut = client_is_sending_message(client);
		link_end(client, server);
	}
	server_leave(server, reason);
}

const struct conn_ops back_ops = {
    .name = "relay",
    .message = back_message,
    .part = back_part,
    .writable = back_writable,
    .expired = clocks_link_expired,
    .malformed = server_malformed,
    .ended = back_ended,
    .closed = back_closed,
};
