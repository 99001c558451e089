/*
 * The client's side of a relay: handles its messages, with and without a server.  This
 * code runs for every message; it copies no bytes, they go from their block to the
 * socket.  back.c handles the server's messages.
 */
#include "relay/relay.h"

#include <string.h>

#include "broker/broker.h"
#include "cancel/drain.h"
#include "handoff/record.h"
#include "relay/back.h"
#include "relay/begin.h"
#include "relay/clocks.h"
#include "relay/common_texts.h"
#include "relay/forward.h"
#include "relay/kept.h"
#include "relay/link.h"
#include "relay/listen.h"
#include "relay/listen_fence.h"
#include "relay/listen_hub.h"
#include "relay/login_answer.h"
#include "relay/long_text.h"
#include "relay/name_map.h"
#include "relay/replay.h"
#include "relay/server_prepared.h"
#include "relay/session_state.h"
#include "relay/slow_log.h"
#include "relay/statements.h"
#include "relay/unnamed.h"
#include "relay/vacate.h"
#include "session/client.h"
#include "session/memory_limit.h"
#include "session/server.h"
#include "session/workers.h"
#include "wire/message.h"
#include "wire/prepared.h"

/* A Query or Parse up to this size must be complete before a server is asked for. */
enum { WHOLE_TEXT_MAX = 16 * 1024 };

/* A Flush has no body. */
enum { FLUSH_SIZE = 5 };

/* ---- linking ---- */

/* The pool has linked the two: takes over the server and sets the client's parameters
 * on it.  True if the client must wait until they are set. */
static bool relay_link(struct client *client, struct server *server)
{
	conn_hand_on(&server->conn, &back_ops);
	return link_begin(client, server);
}

static void request_granted(struct request *request)
{
	struct client *client = request_client(request);
	/* a client that is closing gives it back unused */
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
	client_fatal(request_client(request), error_of_reason(reason), reason);
}

/* Only logins wait for the parameters of their pool, so this is not called for a client
 * that is logged in. */
static void request_admitted(struct request *request)
{
	conn_unpark(&request_client(request)->conn);
}

static void request_retried(struct request *request)
{
	conn_unpark(&request_client(request)->conn);
}

const struct request_ops relay_request_ops = {
    .granted = request_granted,
    .admitted = request_admitted,
    .retried = request_retried,
    .refused = request_refused,
    .killed = request_killed,
    .conn = client_of_request,
};

static enum step front_drop(struct client *client)
{
	client->is_dropping = true;
	return STEP_NEXT;
}

/* Ends a query that no server got. */
static void front_end_unrun(struct client *client)
{
	const struct server *server = client_server(client);

	begin_put_ready(client);
	/* its block goes on there */
	if (server && server->status != 'I')
		return;
	listen_table_flush(client);
	slow_log_end(client, NULL, "no_server");
	client->request.in_pool.query_us = 0;
	client->xact_us = 0;
	clocks_arm_rest(client);
}

/* Answers m with an error of the pooler; what follows up to Sync is skipped. */
static enum step front_fail(struct client *client, const struct message *m)
{
	if (client->block.state)
		client->block.state = BLOCK_FAILED;
	client->is_skipping = m->type != 'Q' && m->type != 'F' && m->type != 'S';
	if (!client->is_skipping)
		front_end_unrun(client);
	return front_drop(client);
}

static enum step front_acquire(struct client *client, const struct message *m)
{
	const char *sqlstate, *text;

	enum request_kind kind =
	    client->replication ? REQUEST_REPLICATION : REQUEST_QUERY;
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
	case BROKER_FULL:
		client_error(client, ERROR_TOO_MANY_WAITING);
		return front_fail(client, m);
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
	if (server && server->link.holds_server) {
		server->link.holds_server = false;
		conn_resume(&server->conn);
	}
}

/* ---- client to server ---- */

/* The query was cancelled while it waited for a server, or there was no room in the
 * queue: answers as PostgreSQL would, without running anything. */
static enum step front_answer_unrun(struct client *client, const struct message *m)
{
	if (client->is_canceled) {
		client->is_canceled = false;
		client_error(client, ERROR_QUERY_CANCELED);
		return front_fail(client, m);
	}
	if (m->type == 'S') {
		client->is_skipping = false;
		front_end_unrun(client);
	}
	return front_drop(client);
}

/* Starts the clocks and counters of a query, at its first message.  server: the one
 * that the client is linked to, or NULL. */
static void front_begin(struct client *client, struct server *server)
{
	struct pool_request *request = &client->request.in_pool;
	bool begins = !request->query_us;

	if (begins) {
		request->query_us = request->last_us;
		request->pool->stats.query_count++;
	}
	if (!client->xact_us) {
		client->xact_us = request->last_us;
		request->pool->stats.xact_count++;
		slow_log_begin(client);
	}
	if (begins && client->slow_log)
		slow_log_begin_query(client);
	if (begins && server) {
		listen_fence_query(server, client);
		clocks_arm_link(server, client);
	}
}

/* The client waits until a COPY has ended, because the meaning of its next message
 * depends on it.  A Flush may be needed to see the end. */
static enum step front_wait_for_copy(struct server *server, const struct message *m)
{
	server_put_flush(server);
	server->link.hold = LINK_UNTIL_COPY_END;
	server->link.held_type = m->type;
	return STEP_PARK;
}

/* Would PostgreSQL ignore the message?  It ignores COPY messages while nothing is owed,
 * because their COPY has failed; and everything after an error up to the next Sync. */
static bool is_ignored(const struct server *server, const struct message *m)
{
	if (pipeline_is_skipping(&server->pipeline))
		return m->type != 'S';
	return pipeline_count(&server->pipeline) == 0 &&
	       message_front(m->type)->flags & MSG_COPY;
}

/* The answer that the pooler gives itself must not stand within a message of the
 * server. */
static enum step front_wait_to_tell(struct server *server)
{
	server->link.hold = LINK_UNTIL_ANSWERED;
	return STEP_PARK;
}

/* A message of a client without a server: a Close, and what defer_begin allows, is
 * answered at once, late COPY messages and Flush are ignored, and everything else needs
 * a server. */
static enum step front_without_server(struct client *client, const struct message *m)
{
	enum step step;

	if (m->type == 'H' || message_front(m->type)->flags & MSG_COPY)
		return front_drop(client);
	if (m->type == 'C') {
		enum statement_fate fate = statements_close_at_rest(client, m);
		if (fate == STATEMENT_DONE)
			clocks_arm_rest(client);
		if (fate != STATEMENT_FORWARD)
			return fate == STATEMENT_MORE ? STEP_MORE : STEP_NEXT;
	}
	if (begin_answer(client, m)) {
		listen_table_flush(client);
		clocks_arm_rest(client);
		return STEP_NEXT;
	}
	/* the block failed before a server knew it */
	if (client->block.state == BLOCK_FAILED && begin_refuses(client, m)) {
		if (m->type != 'S')
			client_error(client, ERROR_FAILED_BLOCK);
		return front_fail(client, m);
	}
	if (!message_is_whole(m) && m->size > MEMORY_LIMIT_MESSAGE &&
	    memory_limit_refuses(client->conn.site)) {
		client_error(client, ERROR_MEMORY_LIMIT);
		return front_fail(client, m);
	}
	front_begin(client, NULL);
	step = front_acquire(client, m);
	if (step != STEP_NEXT || !client_server(client))
		return step;
	return forward_message(client, client_server(client), m);
}

static enum step front_message(struct conn *conn, const struct message *m)
{
	struct client *client = conn_client(conn);
	const struct message_row *row = message_front(m->type);
	struct server *server;

	client->is_dropping = false;
	client->request.in_pool.last_us = conn_now(conn);
	if (!(row->flags & MSG_KNOWN) || (row->flags & MSG_LOGIN)) {
		conn_log(conn, LEVEL_ERROR | KIND_PROTOCOL,
		    "unknown pkt from client: %u/0x%x", m->type, m->type);
		client_fatal(client, ERROR_UNKNOWN_PACKET);
		return STEP_CLOSE;
	}
	if (m->type == 'X') {
		conn_doom(conn, "client close request");
		return STEP_CLOSE;
	}
	/* PostgreSQL answers it with an error that no request accounts for, and then
	 * skips everything up to a Sync: that of the next client */
	if (m->type == 'H' && m->size > FLUSH_SIZE) {
		client_malformed(conn, m->bytes, m->have < 8 ? m->have : 8);
		return STEP_CLOSE;
	}
	if (m->type == 'Q' && site_settings(conn->site)->disable_pqexec) {
		conn_log(conn, LEVEL_ERROR | KIND_PROTOCOL,
		    "client used \"Query\" packet type");
		client_fatal(client, ERROR_PQEXEC_DISALLOWED);
		return STEP_CLOSE;
	}
	server = client_server(client);
	/* Data for a COPY that was cancelled before its server got it.  A message that
	 * waits for the pooler's SETs would be taken for the next query, by a cancel
	 * request. */
	if (server && server->link.params.is_applying && row->flags & MSG_COPY)
		return front_drop(client);
	/* the ReadyForQuery of its last query comes first, back_sourced() wakes it */
	if (server && server->link.params.owes_ready)
		return STEP_PARK;
	if (client->is_canceled || client->is_skipping)
		return client_may_be_told(client) ? front_answer_unrun(client, m)
						  : front_wait_to_tell(server);
	if ((m->type == 'Q' || m->type == 'P') && !message_is_whole(m) &&
	    m->size <= WHOLE_TEXT_MAX)
		return STEP_MORE;
	/* answers that the pooler makes up are not slowed down by a server, so a client
	 * that does not read them is stopped here */
	if (!(row->flags & MSG_COPY) && stream_is_above_high(&conn->stream)) {
		client->waits_to_drain = true;
		return STEP_PARK;
	}

	if (!server)
		return front_without_server(client, m);
	if (server->dial || server->link.params.is_applying ||
	    server->link.hold != LINK_OPEN || server->link.is_trying_again)
		return STEP_PARK;
	if (begin_holds(server))
		return front_wait_to_tell(server);
	if (pipeline_must_wait(&server->pipeline, m->type))
		return front_wait_for_copy(server, m);
	if (is_ignored(server, m))
		return front_drop(client);
	if (!forward_may_go_on(server))
		return forward_hold(server);
	if (!(row->flags & MSG_COPY) && m->type != 'H')
		front_begin(client, server);
	return forward_message(client, server, m);
}

static enum step front_part(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len)
{
	struct client *client = conn_client(conn);
	struct server *server = client_server(client);
	client->request.in_pool.last_us = conn_now(conn);
	if (client->is_dropping || !server)
		return STEP_NEXT;
	if (forward_part(client, server, block, p, len) == STEP_CLOSE)
		return STEP_CLOSE;
	if (conn->passing == 0)
		back_go_on(server, client);
	return STEP_NEXT;
}

static void front_ended(struct conn *conn, const struct err *err)
{
	conn_log_tls_failure(conn, err);
	conn_doom(conn, err ? "unexpected eof" : "client unexpected eof");
}

/* The client leaves a server that it is linked to: the server goes back to the pool if
 * it is usable, otherwise it closes. */
static void front_leave_server(struct client *client, struct server *server)
{
	server->is_cut = client_is_sending_message(client);
	slow_log_end(client, server, "client_closed");
	link_end(client, server);
	if (!server->conn.is_doomed && server->is_ready &&
	    pipeline_is_settled(&server->pipeline) &&
	    stream_pending(&server->conn.stream) == 0 && server->conn.passing == 0 &&
	    !client_is_sending_message(client)) {
		session_state_release(server);
		broker_give(server);
		return;
	}
	if (!server->is_cut && !server->conn.is_doomed && drain_is_wanted(server)) {
		session_state_release(server);
		drain_begin(server);
		return;
	}
	if (server->slot.is_replication)
		server_abandon(server, "replication client disconnected");
	else if (!server->is_ready)
		server_abandon(server, "client disconnect while server was not ready");
	else if (!pipeline_is_settled(&server->pipeline))
		server_abandon(server, "client disconnected with query in progress");
	else
		server_abandon(server,
		    "client disconnect before everything was sent to the server");
}

static void front_closed(struct conn *conn, const char *reason)
{
	struct client *client = conn_client(conn);
	struct server *server = client_server(client);
	(void)reason;
	if (server)
		front_leave_server(client, server);
	else
		slow_log_end(client, NULL, "no_server");
	slow_log_forget(client);
	unnamed_forget(client);
	listen_forget(client);
	client_leave(client);
}

/* Messages about prepared statements that are too short get an error of their own. */
static void front_malformed(struct conn *conn, const uint8_t *bytes, size_t have)
{
	const struct message_row *row = message_front(bytes[0]);
	uint32_t len = have > 4 ? get_u32(bytes + 1) : 0;

	if (strchr("PBDC", bytes[0]) && len >= 4 && len < row->min_len)
		client_fatal(conn_client(conn), ERROR_BROKEN_MESSAGE, row->name);
	else
		client_malformed(conn, bytes, have);
}

static const struct conn_ops front_ops = {
    .name = "relay",
    .message = front_message,
    .part = front_part,
    .writable = front_writable,
    .expired = clocks_client_expired,
    .review = clocks_review,
    .malformed = front_malformed,
    .ended = front_ended,
    .closed = front_closed,
};

/* ---- the service ---- */

static void relay_adopt(struct client *client)
{
	struct server *own = client_server(client);

	conn_hand_on(&client->conn, &front_ops);
	client->request.ops = &relay_request_ops;
	login_answer_send(client);
	client->request.in_pool.last_us = conn_now(&client->conn);
	if (own)
		relay_link(client, own);
	clocks_arm_rest(client);
}

/* ---- clients that go to another process or site, or come from there ---- */

/* A link with many small objects (statements that are being prepared, rewritten
 * commands) is not moved: that state ends soon, at the latest with the transaction. */
static bool is_movable(const struct client *client)
{
	const struct server *server = client_server(client);

	/* what it listens to goes nowhere: it stays until it listens no more */
	if (!unnamed_is_certain(client) || listen_holds(client))
		return false;
	if (!server)
		return true;

	const struct link *link = &server->link;
	const struct pipeline *p = &server->pipeline;

	return !link->sql && !link->journal && !link->parsing &&
	       list_is_empty(&link->portals) && list_is_empty(&link->name_maps) &&
	       !link->params.is_applying && !link->is_trying_again &&
	       !link->begin_type && !p->is_lost && !p->is_uncertain && !p->strays &&
	       !p->is_asked && !p->is_over;
}

static void describe(const struct client *client, struct record_client *out,
    struct record_server *server)
{
	unnamed_describe(client, out);
	slow_log_describe(client, out);
	if (server)
		replay_describe(client_server(client), server);
}

static void let_go(struct client *client)
{
	struct server *server = client_server(client);

	/* the other process delivers what is held back of an answer */
	if (server && server->link.replay)
		buf_clear(&server->link.replay->described);
	if (server)
		link_end(client, server);
	unnamed_forget(client);
	slow_log_forget(client);
	listen_forget(client);
}

static void *pack(struct client *client)
{
	/* no transaction is running */
	slow_log_forget(client);
	return unnamed_pack(client);
}

static void unpack(struct client *client, void *packed)
{
	clocks_arm_rest(client);
	unnamed_unpack(client, packed);
}

static int relay_take(struct client *client, const struct record_client *from,
    const struct record_server *from_server)
{
	struct server *server = client_server(client);

	conn_hand_on(&client->conn, &front_ops);
	client->request.ops = &relay_request_ops;
	if (server)
		conn_hand_on(&server->conn, &back_ops);
	if (unnamed_restore(client, from) < 0)
		return -1;
	slow_log_restore(client, from);
	if (!server) {
		clocks_arm_rest(client);
		return 0;
	}
	link_restore(client, server, &from_server->link);
	if (from_server->pin_names.len)
		kept_restore_names(
		    server, from_server->pin_names.at, from_server->pin_names.len);
	return replay_restore(server, from_server);
}

static const struct service_moves relay_moves = {
    .is_movable = is_movable,
    .loosen = back_loosen,
    .describe = describe,
    .let_go = let_go,
    .pack = pack,
    .unpack = unpack,
    .take = relay_take,
};

const struct service relay_service = {
    .name = "relay",
    .adopt = relay_adopt,
    .moves = &relay_moves,
};

/* ---- making and unmaking ---- */

/* All workers have the same bytes of texts, but each counts their uses itself. */
static void make_registries(struct site *site)
{
	const struct workers *workers = site->worker ? site->worker->workers : NULL;

	site->prepared =
	    prepared_registry_new(workers ? prepared_store_ref(workers->texts)
					  : prepared_store_new(PREPARED_PREFIX));
	site->sql_prepared =
	    prepared_registry_new(workers ? prepared_store_ref(workers->sql_texts)
					  : prepared_store_new(PREPARED_SQL_PREFIX));
}

void relay_init(struct site *site)
{
	make_registries(site);
	site->prepare_like = server_prepared_copy;
	site->long_texts = long_texts_new(site->loop);
	site->leak_table = leak_table_new();
	site->listens = listen_table_new(site, listen_hub_drop);
	site->login_answers = login_answers_new();
	list_init(&site->vacating);
	site->text_counts_slab = common_texts_slab(&site->mem);
	site->unnamed_slab = unnamed_slab(&site->mem);
	site->replay_slab = replay_slab(&site->mem);
	site->name_map_slab = name_map_slab(&site->mem);
}

void relay_done(struct site *site)
{
	prepared_registry_free(&site->prepared);
	prepared_registry_free(&site->sql_prepared);
	long_texts_free(&site->long_texts);
	leak_table_free(&site->leak_table);
	listen_table_free(&site->listens);
	login_answers_free(&site->login_answers);
	vacate_stop(site);
	common_texts_free(site);
	slab_free(&site->text_counts_slab);
	slab_free(&site->unnamed_slab);
	slab_free(&site->replay_slab);
	slab_free(&site->name_map_slab);
}
