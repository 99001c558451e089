/*
 * The way of a client's message to its server: as it is, under other names, with
 * messages of our own around it, or not at all; and what the client must wait for
 * behind it.
 */
#include "session/forward.h"

#include "session/clocks.h"
#include "session/leaks.h"
#include "session/params.h"
#include "session/segment.h"
#include "session/sql_statements.h"
#include "session/statements.h"
#include "session/unnamed.h"
#include "wire/message.h"
#include "wire/prepared.h"

/* Answers owed to one client before we stop reading from it. */
enum { OWED_MOST = 16 * 1024 };

/* Bytes for the server; the client waits when the server takes no more. */
void forward_bytes(struct client *client, struct server *server, struct block *block,
    const uint8_t *p, size_t len)
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

/* Something runs on the server now. */
static void forward_began(struct client *client, struct server *server, bool begins)
{
	if (pipeline_is_settled(&server->pipeline))
		return;
	server->is_ready = false;
	server->idle_xact_us = 0;
	if (begins)
		clocks_arm_query(server, client);
}

static enum step forward_as_is(
    struct client *client, struct server *server, const struct message *m)
{
	if (pipeline_owe(&server->pipeline, m->type, OWED_CLIENT, 0) < 0) {
		server_retire(server, "out of memory");
		client_fatal(client, ERROR_OUT_OF_MEMORY);
		return STEP_CLOSE;
	}
	forward_bytes(client, server, m->block, m->bytes, m->have);
	return STEP_NEXT;
}

static enum statement_fate take_statement(
    struct client *client, struct server *server, const struct message *m, size_t *rest)
{
	if (m->type != 'Q')
		return statements_take(client, server, m, rest);
	switch (sql_take(client, server, m)) {
	case SQL_FORWARD:
		return statements_take(client, server, m, rest);
	case SQL_SENT:
		statements_take(client, server, m, rest);
		return STATEMENT_DONE;
	case SQL_MORE:
		return STATEMENT_MORE;
	case SQL_WAIT:
		return STATEMENT_WAIT;
	case SQL_BROKEN:
		break;
	}
	return STATEMENT_BROKEN;
}

static enum step forward_statement(
    struct client *client, struct server *server, const struct message *m)
{
	enum step step = STEP_NEXT;
	size_t rest = 0;

	switch (take_statement(client, server, m, &rest)) {
	case STATEMENT_FORWARD:
		step = forward_as_is(client, server, m);
		break;
	case STATEMENT_RENAMED:
		forward_bytes(
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
	if (pipeline_has_made_up(&server->pipeline))
		statements_make_up(client, server);
	return step;
}

static bool names_statement(uint8_t type)
{
	return type == 'P' || type == 'B' || type == 'D' || type == 'C' || type == 'Q';
}

/* May the client's prepared statements be gone behind this Query?  One that has none
 * loses none by a DEALLOCATE further on in the text. */
static bool may_forget(const struct client *client, const struct message *m)
{
	const char *text = (const char *)m->bytes + 5;
	size_t len = m->have > 5 ? m->have - 5 : 0;

	if (!client->names)
		return prepared_is_forgetting(text, len);
	return !message_is_whole(m) || prepared_mentions_forgetting(text, len);
}

/* What comes behind it depends on its outcome: on which statements there still are, on
 * which parameters are brought back. */
static bool must_hold_back(
    const struct client *client, const struct server *server, const struct message *m)
{
	switch (m->type) {
	case 'Q':
		return reset_is_any(&server->reset) || may_forget(client, m);
	case 'S':
		return reset_is_any(&server->reset);
	case 'E':
		return server->has_forgetting_portal;
	default:
		return false;
	}
}

/* Without it the server would keep answers until the client's Sync. */
static void ask_for_answers(struct server *server)
{
	static const uint8_t flush[] = {'H', 0, 0, 0, 4};
	stream_put(&server->conn.stream, NULL, flush, sizeof(flush));
}

static void hold_back(struct server *server, const struct message *m)
{
	if (m->type == 'E')
		ask_for_answers(server);
	server->holds_back = true;
}

bool forward_may_go_on(const struct server *server)
{
	return pipeline_count(&server->pipeline) < OWED_MOST ||
	       pipeline_is_copy_in(&server->pipeline);
}

enum step forward_hold(struct server *server)
{
	ask_for_answers(server);
	server->holds_back = true;
	return STEP_PARK;
}

/* A Query or Parse that may be refused for what it would leave behind. */
static enum step forward_text(struct client *client, struct server *server,
    const struct message *m, bool is_tracked)
{
	enum step step;

	switch (leaks_take(client, server, m, is_tracked)) {
	case LEAK_PASS:
		break;
	case LEAK_MORE:
		return STEP_MORE;
	case LEAK_REFUSED:
		/* PostgreSQL forgets the unnamed statement before it fails */
		if (m->type == 'Q' || !m->bytes[5]) {
			server->has_unnamed = true;
			unnamed_forget(client);
		}
		return STEP_NEXT;
	case LEAK_BROKEN:
		return STEP_CLOSE;
	}
	step = is_tracked ? forward_statement(client, server, m)
			  : forward_as_is(client, server, m);
	if (step == STEP_NEXT)
		leaks_expect(server, server->leaks.looked);
	return step;
}

enum step forward_again(
    struct client *client, struct server *server, const struct message *m)
{
	bool is_tracked = (names_statement(m->type) ||
			      (m->type == 'E' && !list_is_empty(&server->portals))) &&
			  statements_are_tracked(client, server);
	enum step step;

	if (m->type == 'F')
		leaks_take_call(server, m);
	if (m->type == 'Q' || m->type == 'P')
		step = forward_text(client, server, m, is_tracked);
	else
		step = is_tracked ? forward_statement(client, server, m)
				  : forward_as_is(client, server, m);
	if (step == STEP_NEXT &&
	    (is_tracked || server->segment || server->is_segment_spoilt))
		segment_note(server, m);
	return step;
}

/* Most of what comes where nothing is tracked concerns the ledger alone: there is no
 * need to ask everyone. */
static bool is_plain(
    const struct client *client, const struct server *server, const struct message *m)
{
	switch (m->type) {
	case 'B':
	case 'D':
	case 'C':
	case 'E':
	case 'S':
		break;
	default:
		return false;
	}
	return !server->segment && !server->is_segment_spoilt &&
	       !server->has_forgetting_portal && list_is_empty(&server->portals) &&
	       !reset_is_any(&server->reset) && !statements_are_tracked(client, server);
}

enum step forward_message(
    struct client *client, struct server *server, const struct message *m)
{
	bool begins = server->is_ready || server->idle_xact_us;
	enum step step;

	if (is_plain(client, server, m)) {
		step = forward_as_is(client, server, m);
		if (step == STEP_NEXT) {
			forward_began(client, server, begins);
			server->seat.pool->stats.bytes_received += m->size;
		}
		return step;
	}

	if (m->type == 'E' && server->has_forgetting_portal && !message_is_whole(m))
		return STEP_MORE;
	if (m->type == 'Q' || m->type == 'P')
		params_note_query(server, m, statements_are_tracked(client, server));
	step = forward_again(client, server, m);
	/* a server that reads COPY data waits for the client */
	if (step == STEP_NEXT && must_hold_back(client, server, m) &&
	    pipeline_count(&server->pipeline) > 0 &&
	    !pipeline_is_copy_in(&server->pipeline))
		hold_back(server, m);
	if (step == STEP_NEXT) {
		forward_began(client, server, begins);
		server->seat.pool->stats.bytes_received += m->size;
	}
	return step;
}
