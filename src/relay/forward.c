#include "relay/forward.h"

#include "relay/batch.h"
#include "relay/begin.h"
#include "relay/kept.h"
#include "relay/listen.h"
#include "relay/long_text.h"
#include "relay/replay.h"
#include "relay/resets.h"
#include "relay/schema.h"
#include "relay/sequences.h"
#include "relay/session_state.h"
#include "relay/slow_log.h"
#include "relay/sql_facts.h"
#include "relay/sql_statements.h"
#include "relay/statements.h"
#include "relay/unnamed.h"
#include "relay/vacate.h"
#include "wire/message.h"
#include "wire/prepared.h"

/* Nothing more is read from a client while so many answers are owed to it. */
enum { OWED_MOST = 16 * 1024 };
/* So long may a Bind be that is looked at as a whole, with session_state=keep. */
enum { VALUES_MOST = 16 * 1024 };

void forward_bytes(struct client *client, struct server *server, struct block *block,
    const uint8_t *p, size_t len)
{
	stream_put(&server->conn.stream, block, p, len);
	if (!stream_is_above_high(&server->conn.stream) || server->link.holds_client)
		return;
	stream_flush(&server->conn.stream);
	if (stream_is_above_high(&server->conn.stream)) {
		server->link.holds_client = true;
		conn_pause(&client->conn);
	}
}

static enum step no_memory(struct client *client, struct server *server)
{
	server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	client_fatal(client, ERROR_OUT_OF_MEMORY);
	return STEP_CLOSE;
}

enum step forward_part(struct client *client, struct server *server,
    struct block *block, const uint8_t *p, size_t len)
{
	if (long_text_part(server, p, len, client->conn.passing == 0) < 0)
		return no_memory(client, server);
	kept_note_part(server, (const char *)p, len, client->conn.passing == 0);
	forward_bytes(client, server, block, p, len);
	return STEP_NEXT;
}

static enum step forward_as_is(
    struct client *client, struct server *server, const struct message *m)
{
	if (pipeline_owe(&server->pipeline, m->type, OWED_CLIENT, 0) < 0)
		return no_memory(client, server);
	forward_bytes(client, server, m->block, m->bytes, m->have);
	return STEP_NEXT;
}

static enum statement_fate rewrite_statement(struct client *client,
    struct server *server, const struct message *m, const struct text_facts *facts,
    size_t *rest)
{
	if (m->type != 'Q')
		return statements_rewrite(client, server, m, facts, rest);
	switch (sql_rewrite_query(client, server, m, &facts->effects)) {
	case SQL_FORWARD:
		return statements_rewrite(client, server, m, facts, rest);
	case SQL_SENT:
		statements_queried(client, server);
		return STATEMENT_DONE;
	case SQL_WAIT:
		return STATEMENT_WAIT;
	case SQL_BROKEN:
		break;
	}
	return STATEMENT_BROKEN;
}

static enum step forward_statement(struct client *client, struct server *server,
    const struct message *m, const struct text_facts *facts)
{
	enum step step = STEP_NEXT;
	size_t rest = 0;

	switch (rewrite_statement(client, server, m, facts, &rest)) {
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
		server->link.hold = LINK_UNTIL_READY;
		return STEP_PARK;
	case STATEMENT_UNREADABLE:
		/* PostgreSQL reports the error of a Describe or Close */
		if ((m->type == 'D' || m->type == 'C') && *message_body(m) != 'S') {
			step = forward_as_is(client, server, m);
			break;
		}
		client_fatal(
		    client, ERROR_BROKEN_MESSAGE, message_front(m->type)->name);
		return STEP_CLOSE;
	case STATEMENT_BROKEN:
		return STEP_CLOSE;
	}
	if (pipeline_has_made_up(&server->pipeline))
		statements_make_up(client, server);
	return step;
}

/* Behind a LISTEN the client may send what it is to get, and behind an UNLISTEN what it
 * is not to get. */
static bool changes_channels(const struct client *client, const struct server *server)
{
	return (server->link.pin.made & LEAK_BIT(LISTEN)) ||
	       (client->listening && client->listening->sent.len &&
		   server->status == 'I');
}

/* Must the messages that follow wait for the outcome of this one, because it may drop
 * statements or reset parameters?  A client that has prepared nothing loses nothing by
 * a DEALLOCATE. */
static bool must_hold_back(const struct client *client, const struct server *server,
    const struct message *m, const struct text_facts *facts)
{
	switch (m->type) {
	case 'Q':
		return effects_is_reset(&server->link.params.reset) ||
		       changes_channels(client, server) || facts->effects.forgets ||
		       (client->names && facts->effects.may_forget);
	case 'S':
		return effects_is_reset(&server->link.params.reset) ||
		       changes_channels(client, server);
	case 'E':
		return server->link.statements.has_forgetting_portal;
	default:
		return false;
	}
}

bool forward_may_go_on(const struct server *server)
{
	return pipeline_count(&server->pipeline) < OWED_MOST ||
	       pipeline_is_copy_in(&server->pipeline);
}

enum step forward_hold(struct server *server)
{
	server_put_flush(server);
	server->link.hold = LINK_UNTIL_ANSWERED;
	return STEP_PARK;
}

/* ---- decide, rewrite, forward ---- */

/* Forwards a Parse that is not tracked. */
static enum step pass_parse(
    struct client *client, struct server *server, const struct message *m)
{
	if (m->have <= 5)
		return STEP_MORE;
	if (m->bytes[5])
		return forward_as_is(client, server, m);
	if (unnamed_parse_untracked(server, m) < 0)
		return no_memory(client, server);
	forward_bytes(client, server, m->block, m->bytes, m->have);
	return STEP_NEXT;
}

/* Forwards a Bind or Describe that is not tracked.  The unnamed statement on the server
 * may be another client's. */
static enum step pass_use(
    struct client *client, struct server *server, const struct message *m)
{
	const char *name;
	int failed = 0;

	switch (prepared_look(m->bytes, m->have, m->size, &name, NULL)) {
	case PREPARED_PARTIAL:
		return STEP_MORE;
	case PREPARED_UNNAMED:
		failed = unnamed_bring_untracked(server);
		break;
	default:
		break;
	}
	if (failed < 0)
		return no_memory(client, server);
	if (failed) {
		server->link.hold = LINK_UNTIL_READY;
		return STEP_PARK;
	}
	return forward_as_is(client, server, m);
}

static enum step pass(struct client *client, struct server *server,
    const struct message *m, const struct text_facts *facts, bool is_tracked)
{
	if (is_tracked)
		return forward_statement(client, server, m, facts);
	switch (m->type) {
	case 'P':
		return pass_parse(client, server, m);
	case 'B':
		if (server->link.params.put_back.is_there) {
			if (m->have < 7)
				return STEP_MORE; /* its names decide */
			resets_bound_parsed(server, m);
		}
		/* fall through */
	case 'D':
		if (!unnamed_is_on_server(server))
			return pass_use(client, server, m);
		break;
	case 'S':
		server->link.unnamed.is_sent = false;
		resets_synced(server);
		break;
	default:
		break;
	}
	return forward_as_is(client, server, m);
}

/* Forwards a Query or Parse, or refuses it because of session state that it would leave
 * behind. */
static enum step pass_text(struct client *client, struct server *server,
    const struct message *m, const struct text_facts *facts, bool is_tracked)
{
	enum step step;
	const char *text;
	size_t len;

	/* such a text has no effects */
	if (facts->shared && facts->shared->is_lasting)
		return pass(client, server, m, facts, is_tracked);
	switch (session_state_check(client, server, m, &facts->effects)) {
	case LEAK_PASS:
		break;
	case LEAK_REFUSED:
		/* PostgreSQL forgets the unnamed statement before it fails */
		if (m->type == 'Q' || !m->bytes[5])
			unnamed_replaced(client, server, m->type);
		return STEP_NEXT;
	case LEAK_BROKEN:
		return STEP_CLOSE;
	}
	step = pass(client, server, m, facts, is_tracked);
	if (step != STEP_NEXT)
		return step;
	if (sql_facts_find(m, &text, &len)) {
		session_state_expect(
		    server, &facts->effects, is_tracked ? m : NULL, text, len);
		if (!message_is_whole(m) && session_state_are_kept(server))
			kept_begin_parts(server, text, len);
		/* a named statement that is tracked runs at its Bind */
		bool runs = m->type == 'Q' || !is_tracked || !m->bytes[5];
		if (client->listening && runs)
			listen_note_text(client, text, len,
			    sql_facts_has_escapes(server),
			    server->pipeline.syncs - (m->type == 'Q'));
		if (facts->effects.vacates && runs)
			vacate_begin(server, text, len);
	}
	schema_expect(server, &facts->effects);
	/* the effects of a tracked statement count when it is bound */
	if (m->type == 'P' && !is_tracked && !m->bytes[5])
		resets_parsed(server, &facts->effects);
	else if (m->type == 'Q' || !is_tracked)
		resets_expect(server, &facts->effects);
	return STEP_NEXT;
}

static enum step forward(struct client *client, struct server *server,
    const struct message *m, struct text_facts *facts)
{
	bool is_tracked =
	    (memchr("PBDCQ", m->type, 5) ||
		(m->type == 'E' && !list_is_empty(&server->link.portals))) &&
	    statements_are_tracked(client);
	bool is_text = m->type == 'Q' || m->type == 'P';
	enum step step = STEP_NEXT;
	const char *text;
	size_t len;

	if (m->type == 'F')
		session_state_check_call(server, m);
	if (is_text && !sql_facts_have_enough(server, m, is_tracked))
		return STEP_MORE;
	if (client->block.state == BLOCK_FAILED) {
		begin_fail(server);
		return STEP_PARK;
	}
	if (is_text) {
		*facts = sql_facts_look(server, m, is_tracked);
		/* nothing of it is sent, nor its BEGIN, before what it waits for */
		if (facts->effects.leaves & LEAK_UNSEEN &&
		    sequences_must_wait(client, server, m))
			step = STEP_PARK;
		else if (client->listening && sql_facts_find(m, &text, &len) &&
			 listen_must_wait(
			     client, server, text, len, sql_facts_has_escapes(server)))
			step = forward_hold(server);
	}
	if (step == STEP_NEXT && begin_send(client, server, m) < 0)
		step = no_memory(client, server);
	if (step == STEP_NEXT)
		step = is_text ? pass_text(client, server, m, facts, is_tracked)
			       : pass(client, server, m, NULL, is_tracked);
	if (is_text)
		prepared_unref(facts->shared);
	if (step == STEP_NEXT && m->type == 'E' &&
	    server->link.params.put_back.is_there &&
	    resets_put_back(server, client, m) < 0)
		return no_memory(client, server);
	if (step == STEP_NEXT &&
	    (is_tracked || server->link.replay || server->link.is_replay_spoilt ||
		message_front(m->type)->flags & MSG_COPY))
		replay_note(server, m);
	return step;
}

enum step forward_again(
    struct client *client, struct server *server, const struct message *m)
{
	struct text_facts facts;

	return forward(client, server, m, &facts);
}

/* Is it a Query in which nothing has to be noted, and which will certainly run because
 * everything before it is answered? */
static bool is_plain_query(
    const struct client *client, const struct server *server, const struct message *m)
{
	const struct link *link = &server->link;

	return m->type == 'Q' && !pipeline_count(&server->pipeline) &&
	       batch_is_possible(client, server) && !link->replay && !link->sql &&
	       !link->journal && !link->is_trying_again &&
	       sql_facts_is_plain(server, m);
}

static enum step pass_plain_query(
    struct client *client, struct server *server, const struct message *m)
{
	/* it ends the unnamed statement, and a replay can begin after it */
	server->link.is_replay_spoilt = false;
	if (client->unnamed && statements_are_tracked(client))
		unnamed_forget(client);
	return forward_as_is(client, server, m);
}

static void sent_to_server(struct client *client, struct server *server, uint64_t size)
{
	if (!pipeline_is_settled(&server->pipeline)) {
		server->is_ready = false;
		server->link.idle_xact_us = 0;
	}
	server->slot.pool->stats.bytes_received += size;
	if (client->slow_log)
		client->slow_log->received += size;
}

/* Forwards the messages from this one on that concern only the ledger, as one span.
 * False: this one does not. */
static bool has_batched(
    struct client *client, struct server *server, const struct message *m)
{
	size_t owed = pipeline_count(&server->pipeline), len;

	if (m->type == 'Q' || m->type == 'd')
		return false;
	len =
	    batch_requests(client, server, m, owed < OWED_MOST ? OWED_MOST - owed : 0);
	if (!len)
		return false;
	forward_bytes(client, server, m->block, m->bytes, len);
	sent_to_server(client, server, len);
	return true;
}

/* Forwards COPY data, which owes no answer, and the COPY data that follows directly. */
static enum step pass_copy_data(
    struct client *client, struct server *server, const struct message *m)
{
	size_t alike = conn_take_alike(&client->conn, m);

	replay_note(server, m);
	forward_bytes(client, server, m->block, m->bytes, m->have + alike);
	sent_to_server(client, server, m->size + alike);
	return STEP_NEXT;
}

enum step forward_message(
    struct client *client, struct server *server, const struct message *m)
{
	struct text_facts facts;
	enum step step;

	server->link.is_fresh = false;
	server->link.is_flushed = m->type == 'H';
	if (has_batched(client, server, m)) {
		server->link.params.has_run = true;
		return STEP_NEXT;
	}
	if (m->type == 'd')
		return pass_copy_data(client, server, m);
	if (replay_wants_whole(server, m))
		return STEP_MORE;
	if (m->type == 'E' && !message_is_whole(m) &&
	    (server->link.statements.has_forgetting_portal ||
		server->link.params.put_back.is_there))
		return STEP_MORE;
	/* its values may be names of parameters */
	if (m->type == 'B' && !message_is_whole(m) && m->size <= VALUES_MOST &&
	    session_state_are_kept(server))
		return STEP_MORE;
	if (client->slow_log)
		slow_log_look(client, server, m);
	bool is_plain = is_plain_query(client, server, m);
	step = is_plain ? pass_plain_query(client, server, m)
			: forward(client, server, m, &facts);
	/* a server that reads COPY data waits for the client */
	if (step == STEP_NEXT && !is_plain &&
	    must_hold_back(client, server, m, &facts) &&
	    pipeline_count(&server->pipeline) > 0 &&
	    !pipeline_is_copy_in(&server->pipeline)) {
		if (m->type == 'E')
			server_put_flush(server);
		server->link.hold = LINK_UNTIL_ANSWERED;
	}
	if (step == STEP_NEXT) {
		sequences_forwarded(server, m);
		sent_to_server(client, server, m->size);
	}
	return step;
}
