#include "relay/statements.h"

#include <string.h>

#include "relay/listen.h"
#include "relay/long_text.h"
#include "relay/name_map.h"
#include "relay/replay.h"
#include "relay/resets.h"
#include "relay/schema.h"
#include "relay/server_prepared.h"
#include "relay/session_state.h"
#include "relay/shared_unnamed.h"
#include "relay/sql_commands.h"
#include "relay/sql_facts.h"
#include "relay/unnamed.h"
#include "relay/vacate.h"
#include "wire/prepared.h"

static const uint8_t parse_complete[] = {'1', 0, 0, 0, 4};
static const uint8_t close_complete[] = {'3', 0, 0, 0, 4};

/* What the client has prepared goes on to work when the settings change. */
static bool may_be_tracked(const struct client *client)
{
	const struct pool *pool = client->request.in_pool.pool;

	return client->names || client->unnamed ||
	       (scope_max_prepared_statements(scope_of_pool(pool)) > 0 &&
		   pool_mode(pool) != POOL_MODE_SESSION && !client->replication);
}

bool statements_are_tracked(const struct client *client)
{
	const struct server *server = client_server(client);

	return server ? server->link.statements.are_tracked : may_be_tracked(client);
}

/* ---- without a server ---- */

enum statement_fate statements_close_at_rest(
    struct client *client, const struct message *m)
{
	const char *name;

	if (!statements_are_tracked(client))
		return STATEMENT_FORWARD;
	if (!message_is_whole(m))
		return STATEMENT_MORE;
	switch (prepared_look(m->bytes, m->have, m->size, &name, NULL)) {
	case PREPARED_NAMED:
		if (prepared_names_find(client->names, name))
			prepared_names_del(&client->names, name);
		break;
	case PREPARED_UNNAMED:
		unnamed_forget(client);
		client->unnamed_server = 0;
		break;
	case PREPARED_PORTAL:
		/* that of a deferred BEGIN; no other exists outside a transaction */
		client->block.has_portal &= m->bytes[6] != 0;
		break;
	case PREPARED_PARTIAL:
	case PREPARED_BROKEN:
		return STATEMENT_FORWARD;
	}
	stream_put(&client->conn.stream, NULL, close_complete, sizeof(close_complete));
	return STATEMENT_DONE;
}

/* ---- what is in flight ---- */

/* Undoes what was noted for the message of this tag, which had no effect. */
static void fail_tag(struct server *server, uint32_t tag)
{
	if (!(tag & SERVER_TAG_UNNAMED))
		prepared_journal_fail(&server->link.journal, tag);
	name_map_end(server, tag);
}

/* An entry of the ledger gets no answer, because an earlier message failed. */
static void on_drop(void *arg, const struct pipeline_entry *entry)
{
	struct server *server = arg;
	struct client *client = server_client(server);

	if (!entry->tag)
		return;
	fail_tag(server, entry->tag);
	if (client)
		unnamed_skipped(client, entry->tag);
}

void statements_link(struct server *server)
{
	server->link.statements.are_tracked = may_be_tracked(server_client(server));
	pipeline_on_drop(&server->pipeline, on_drop, server);
}

void statements_unlink(struct server *server)
{
	prepared_journal_clear(&server->link.journal);
	name_map_clear_all(server);
	long_text_forget(server);
	sql_portals_clear(server);
	replay_drop(server);
}

/* ---- sending ---- */

static enum statement_fate no_memory(struct client *client, struct server *server)
{
	server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	client_fatal(client, ERROR_OUT_OF_MEMORY);
	return STATEMENT_BROKEN;
}

/* What is sent to a server for a client's text. */
struct server_text {
	struct sql_command command;
	struct prepared_text *text; /* one reference */
};

/* Finds it, and sends what must precede a command. */
static int server_text_init(struct server_text *ours, struct client *client,
    struct server *server, struct prepared_text *text)
{
	struct sql_command *c = &ours->command;

	*ours = (struct server_text){0};
	if (sql_command_init(c, client, server, prepared_sql(text), &text->effects) < 0)
		return -1;
	if (c->sql.span.kind == COMMAND_NONE)
		ours->text = server_prepared_variant(server, text);
	else if (sql_command_before(c, server) == 0)
		ours->text = sql_command_text(c, server, text);
	return ours->text ? 0 : -1;
}

static void server_text_done(struct server_text *ours)
{
	sql_command_done(&ours->command);
	prepared_unref(ours->text);
}

/* ---- Parse ---- */

/* A Parse of a name that is in use: PostgreSQL analyses the text first and then reports
 * an error.  If it reports none, it has lost the statement: see parsed_again. */
static int parse_again(struct client *client, struct server *server,
    const struct message *m, const char *name, struct prepared_text *taken,
    struct prepared_text *text, size_t *rest)
{
	struct server_text ours;
	int failed = server_text_init(&ours, client, server, taken);

	if (!failed)
		failed = server_prepared_block(server, ours.text);
	if (!failed)
		failed = server_prepared_make_room(server, 0);
	if (!failed)
		failed = name_map_send_back(server, m, ours.text->name, name, rest);
	if (!failed)
		name_map_find(server, server->last_tag)->parsed = prepared_ref(text);
	server_text_done(&ours);
	return failed;
}

/* Notes that a running command may drop statements without a CommandComplete that says
 * so. */
static void doubt_statements(struct client *client, struct server *server)
{
	server_prepared_doubt(server);
	prepared_names_doubt(client->names);
}

/* A Parse that was expected to fail has succeeded: the server had dropped statements.
 * The client's name stands for the new text now; other statements are uncertain. */
static int parsed_again(
    struct client *client, struct server *server, const struct message *m, uint32_t tag)
{
	const struct name_map *a = name_map_find(server, tag);

	if (m->type != '1' || !a || !a->parsed)
		return 0;
	doubt_statements(client, server);
	return prepared_names_put(
	    &client->names, a->theirs, a->parsed, server_generation(server));
}

/* Removes a name; nothing happens if there is none. */
static int remove_name(
    struct client *client, struct server *server, uint32_t tag, const char *name)
{
	uint32_t generation;
	struct prepared_text *text =
	    prepared_names_look(client->names, name, &generation);

	if (!text)
		return 0;
	if (server_prepared_note(server, tag, PREPARED_NAME_REMOVED, name, text) < 0)
		return -1;
	prepared_journal_date(server->link.journal, generation);
	prepared_names_del(&client->names, name);
	return 0;
}

/* Gives the name to the text, in place of an older text whose statement the server may
 * have lost. */
static int add_name(struct client *client, struct server *server, uint32_t tag,
    const char *name, struct prepared_text *text)
{
	if (remove_name(client, server, tag, name) < 0)
		return -1;
	if (server_prepared_note(server, tag, PREPARED_NAME_ADDED, name, text) < 0)
		return -1;
	return prepared_names_put(
	    &client->names, name, text, server_generation(server));
}

static int send_parse(struct server *server, const struct message *m,
    const struct server_text *ours, uint32_t tag)
{
	struct buf parse;
	size_t rest;
	int failed;

	server->slot.pool->stats.server_parse_count++;
	if (ours->command.sql.span.kind == COMMAND_NONE) {
		if (name_map_send(server, m, ours->text->name, tag, &rest) < 0)
			return -1;
		stream_put(
		    &server->conn.stream, m->block, m->bytes + rest, m->have - rest);
		return 0;
	}
	buf_init(&parse, 0);
	prepared_put_parse(ours->text, &parse);
	failed = sql_command_send(server, &ours->command, &parse, tag);
	buf_done(&parse);
	return failed;
}

static int parse_new(struct client *client, struct server *server,
    const struct message *m, const char *name, struct prepared_text *text,
    const struct server_text *ours)
{
	/* only if the server would certainly have sent ParseComplete and nothing else,
	 * and if its statement is what a Parse would make now */
	bool is_made_up =
	    ours->text->is_silent && !ours->text->is_told && schema_is_quiet(server) &&
	    server_prepared_is_held(server, ours->text, server_generation(server));
	uint32_t tag;

	if (!is_made_up && server_prepared_close_spoilt(server, ours->text) < 0)
		return -1;
	if (is_made_up) {
		tag = server_next_tag(server);
		if (add_name(client, server, tag, name, text) < 0)
			return -1;
		prepared_set_touch(server->statements, ours->text);
		return server_owe(server, 'P', OWED_MADE_UP, tag);
	}
	if (server_prepared_drop(server, ours->text) < 0)
		return -1;
	/* nothing can be sent before the rest of the message */
	if (!message_is_whole(m) && server_prepared_make_room(server, 1) < 0)
		return -1;
	tag = server_next_tag(server);
	if (add_name(client, server, tag, name, text) < 0 ||
	    server_prepared_add(server, ours->text, tag) < 0 ||
	    send_parse(server, m, ours, tag) < 0)
		return -1;
	return message_is_whole(m) ? server_prepared_make_room(server, 0) : 0;
}

/* The text of a Parse, shared if possible; one reference. */
static struct prepared_text *text_of_parse(struct server *server,
    const struct message *m, const struct text_facts *facts, size_t at)
{
	if (facts->shared)
		return prepared_ref(facts->shared);
	if (facts->is_long)
		return long_text_new(
		    server->conn.site, &facts->effects, m->bytes + at, m->have - at);
	return server_prepared_intern(server, server->conn.site->prepared,
	    m->bytes + at, (size_t)m->size - at, &facts->effects);
}

static enum statement_fate rewrite_parse(struct client *client, struct server *server,
    const struct message *m, const struct text_facts *facts, const char *name,
    size_t *rest)
{
	struct prepared_text *taken, *text;
	enum statement_fate fate = STATEMENT_DONE;
	struct server_text ours;
	int failed;

	if (!message_is_whole(m) && !facts->is_long)
		return STATEMENT_MORE;
	server->slot.pool->stats.client_parse_count += !server->link.is_trying_again;
	text = text_of_parse(server, m, facts, *rest);
	if (!text)
		return no_memory(client, server);
	taken = prepared_names_find(client->names, name);
	if (taken && !prepared_names_is_doubtful(client->names, name)) {
		failed = parse_again(client, server, m, name, taken, text, rest);
		long_text_expect(server, m, text);
		prepared_unref(text);
		return failed ? no_memory(client, server) : STATEMENT_RENAMED;
	}
	failed = server_text_init(&ours, client, server, text);
	if (!failed && server->pipeline.syncs > 0 &&
	    prepared_set_has(server->statements, ours.text))
		fate = STATEMENT_WAIT;
	else if (!failed)
		failed = parse_new(client, server, m, name, text, &ours);
	if (fate == STATEMENT_DONE)
		long_text_expect(server, m, text);
	server_text_done(&ours);
	prepared_unref(text);
	return failed ? no_memory(client, server) : fate;
}

/* ---- Bind, Describe ---- */

static enum statement_fate rewrite_bind(struct client *client, struct server *server,
    const struct message *m, const char *name, size_t *rest)
{
	uint32_t generation;
	struct prepared_text *text =
	    prepared_names_look(client->names, name, &generation);
	struct server_text ours;
	int failed;

	if (text && replay_wants_first(server, m))
		return STATEMENT_MORE;
	if (text && text->effects.is_command && m->type == 'B' &&
	    !sql_portal_may_be_made(server))
		return STATEMENT_WAIT;
	if (m->type == 'B' && !server->link.is_trying_again)
		server->slot.pool->stats.bind_count++;
	if (!text) {
		failed = name_map_send_back(server, m, PREPARED_NONE, name, rest);
		return failed ? no_memory(client, server) : STATEMENT_RENAMED;
	}
	failed = server_text_init(&ours, client, server, text);
	if (!failed)
		failed = server_prepared_ensure(server, ours.text, generation);
	text->hits += !server->link.is_trying_again;
	text->last_use_us = conn_now(&server->conn);
	if (m->type == 'B') {
		session_state_expect(server, &text->effects, m, prepared_sql(text),
		    strlen(prepared_sql(text)));
		if (client->listening)
			listen_note_text(client, prepared_sql(text),
			    strlen(prepared_sql(text)), sql_facts_has_escapes(server),
			    server->pipeline.syncs);
		if (text->effects.vacates)
			vacate_begin(
			    server, prepared_sql(text), strlen(prepared_sql(text)));
		schema_expect(server, &text->effects);
		resets_bound(server, m, &text->effects);
		if (text->effects.forgets || text->effects.hides_forgetting)
			server->link.statements.has_forgetting_portal = true;
	}
	if (!failed && m->type == 'B')
		failed = sql_portal_note(server, m, &ours.command);
	replay_begin(server, m);
	if (!failed)
		failed = name_map_send_back(server, m, ours.text->name, name, rest);
	if (m->type == 'B' && text->effects.hides_forgetting)
		doubt_statements(client, server);
	server_text_done(&ours);
	return failed ? no_memory(client, server) : STATEMENT_RENAMED;
}

/* ---- Close ---- */

static enum statement_fate rewrite_close(
    struct client *client, struct server *server, const char *name)
{
	uint32_t tag = 0;

	if (prepared_names_find(client->names, name)) {
		tag = server_next_tag(server);
		if (remove_name(client, server, tag, name) < 0)
			return no_memory(client, server);
	}
	if (server_owe(server, 'C', OWED_MADE_UP, tag) < 0)
		return no_memory(client, server);
	return STATEMENT_DONE;
}

/* ---- the unnamed statement ---- */

static enum statement_fate end_unnamed(
    struct client *client, struct server *server, const struct message *m, size_t *rest)
{
	*rest = 0;
	return unnamed_end(client, server, m) < 0 ? no_memory(client, server)
						  : STATEMENT_RENAMED;
}

static enum statement_fate rewrite_unnamed(struct client *client, struct server *server,
    const struct message *m, const struct text_facts *facts, size_t *rest)
{
	int failed = 0;

	switch (m->type) {
	case 'P':
		if (!message_is_whole(m) && m->size <= LONG_TEXT_MORE_THAN)
			return STATEMENT_MORE;
		failed = facts->shared
			     ? shared_unnamed_parse(client, server, m, facts->shared)
			     : unnamed_parse(client, server, m, *rest, facts);
		if (!failed && facts->shared)
			return STATEMENT_DONE;
		*rest = 0;
		return failed < 0   ? no_memory(client, server)
		       : failed > 0 ? STATEMENT_DONE
				    : STATEMENT_RENAMED;
	case 'C':
		return end_unnamed(client, server, m, rest);
	}
	failed = shared_unnamed_use(client, server, m, rest);
	if (failed == SHARED_UNNAMED_SENT)
		return STATEMENT_RENAMED;
	if (failed == SHARED_UNNAMED_MORE)
		return STATEMENT_MORE;
	if (failed == SHARED_UNNAMED_NONE)
		failed = unnamed_bring(client, server, m);
	return failed < 0   ? no_memory(client, server)
	       : failed > 0 ? STATEMENT_WAIT
			    : STATEMENT_FORWARD;
}

/* ---- Execute ---- */

/* Makes sure that everything that the portal needs exists when it runs. */
static enum statement_fate rewrite_execute(
    struct client *client, struct server *server, const struct message *m, size_t *rest)
{
	const char *name = (const char *)m->bytes + 5;
	struct sql_portal *p;
	struct name_map *a;
	uint32_t tag;

	if (!message_is_whole(m))
		return STATEMENT_MORE;
	if (m->have <= 5 || !memchr(name, 0, m->have - 5) ||
	    !(p = sql_portal_find(server, name)))
		return STATEMENT_FORWARD;
	if (server->link.journal && server->pipeline.syncs > 0)
		return STATEMENT_WAIT;
	if (sql_before_run(client, server, p->kind, p->theirs, p->text) < 0)
		return no_memory(client, server);
	tag = server_next_tag(server);
	a = name_map_new(server, tag, p->ours, p->theirs);
	if (!a)
		return no_memory(client, server);
	a->kind = p->kind;
	a->text = p->text ? prepared_ref(p->text) : NULL;
	a->move = p->move;
	*rest = 0;
	/* the entry ends the alias if the message is skipped */
	if (server_owe(server, 'E', OWED_CLIENT, tag) < 0)
		return no_memory(client, server);
	return STATEMENT_RENAMED;
}

static void close_portal(struct server *server, const struct message *m)
{
	const char *name = (const char *)m->bytes + 6;

	if (!list_is_empty(&server->link.portals) && m->have > 6 &&
	    memchr(name, 0, m->have - 6))
		sql_portal_drop(server, name);
}

/* ---- the client's messages ---- */

static enum statement_fate rewrite(struct client *client, struct server *server,
    const struct message *m, const struct text_facts *facts, size_t *rest)
{
	const char *name = NULL;

	if (m->type == 'Q') {
		/* a simple query ends the unnamed statement, and its portal */
		sql_portal_drop(server, "");
		if (facts->effects.hides_forgetting)
			doubt_statements(client, server);
		return end_unnamed(client, server, m, rest);
	}
	if (m->type == 'E')
		return rewrite_execute(client, server, m, rest);
	switch (prepared_look(m->bytes, m->have, m->size, &name, rest)) {
	case PREPARED_PARTIAL:
		return STATEMENT_MORE;
	case PREPARED_UNNAMED:
		return rewrite_unnamed(client, server, m, facts, rest);
	case PREPARED_PORTAL:
		if (m->type == 'C')
			close_portal(server, m);
		return STATEMENT_FORWARD;
	case PREPARED_BROKEN:
		return STATEMENT_UNREADABLE;
	case PREPARED_NAMED:
		break;
	}
	/* after a Sync, names and texts are not certain until everything before it is
	 * answered */
	if (server->link.journal && server->pipeline.syncs > 0)
		return STATEMENT_WAIT;
	if (m->type == 'P')
		return rewrite_parse(client, server, m, facts, name, rest);
	if (m->type == 'C')
		return message_is_whole(m) ? rewrite_close(client, server, name)
					   : STATEMENT_MORE;
	return rewrite_bind(client, server, m, name, rest);
}

/* Undoes what was noted for messages that got no answer and so had no effect. */
static int undo_failed(struct client *client, struct server *server)
{
	return server->link.journal ? prepared_journal_undo(&server->link.journal,
					  &client->names, &server->statements)
				    : 0;
}

void statements_queried(struct client *client, struct server *server)
{
	unnamed_forget(client);
	sql_portal_drop(server, "");
}

enum statement_fate statements_rewrite(struct client *client, struct server *server,
    const struct message *m, const struct text_facts *facts, size_t *rest)
{
	enum statement_fate fate = rewrite(client, server, m, facts, rest);
	if (fate != STATEMENT_BROKEN && undo_failed(client, server) < 0)
		return no_memory(client, server);
	return fate;
}

/* ---- the server's messages ---- */

/* Longer errors are not about statements. */
enum { ERROR_MAX = 256 * 1024 };

bool statements_want_whole(const struct server *server, const struct message *m)
{
	return m->type == 'E' && m->size <= ERROR_MAX &&
	       (server->statements || !list_is_empty(&server->link.name_maps));
}

static bool is_error_sent(
    struct client *client, struct server *server, const struct message *m, uint32_t tag)
{
	const struct name_map *a = name_map_find(server, tag);
	struct buf moved, buf;

	if (!a || !message_is_whole(m))
		return false;
	sql_has_lost(server, m, a->kind, a->text);
	buf_init(&moved, 0);
	buf_init(&buf, 0);
	prepared_sql_put_error(message_body(m), message_body_len(m), &a->move, &moved);
	prepared_put_error_renamed(moved.bytes, moved.len, a->ours, a->theirs, &buf);
	buf.failed = buf.failed || moved.failed;
	client_say(client, &buf);
	buf_done(&moved);
	buf_done(&buf);
	return true;
}

bool statements_is_for_client(const struct server *server, const struct message *m,
    const struct pipeline_entry *done)
{
	return m->type == 'E' && done->type && done->to == OWED_SELF &&
	       !server->link.params.is_applying;
}

bool statements_answered(struct client *client, struct server *server,
    const struct message *m, const struct pipeline_entry *done)
{
	bool is_sent = false;

	if (m->type == 'C' && server_has_forgotten(m) &&
	    prepared_journal_forget(
		server->link.journal, &client->names, &server->statements) < 0)
		no_memory(client, server);
	if (done->tag && m->type == 'E') {
		is_sent = !server->link.is_trying_again &&
			  is_error_sent(client, server, m, done->tag);
		fail_tag(server, done->tag);
		unnamed_failed(client, done->tag);
	} else if (done->tag) {
		if (parsed_again(client, server, m, done->tag) < 0)
			no_memory(client, server);
		unnamed_parsed(client, server, done->tag);
		/* the portal of a command may have been replaced since */
		const struct name_map *a = name_map_find(server, done->tag);
		if (a &&
		    sql_completed(client, server, m, a->kind, a->theirs, a->text) < 0)
			no_memory(client, server);
		if (!(done->tag & SERVER_TAG_UNNAMED))
			prepared_journal_commit(&server->link.journal, done->tag);
		name_map_end(server, done->tag);
	}
	if (undo_failed(client, server) < 0)
		no_memory(client, server);
	if (m->type == 'Z' && server->status == 'I' && server->pipeline.syncs == 0)
		sql_portals_clear(server);
	if (m->type == 'Z' && !server->link.is_trying_again &&
	    pipeline_is_settled(&server->pipeline))
		replay_end(server);
	return is_sent;
}

void statements_make_up(struct client *client, struct server *server)
{
	struct pipeline_entry entry;

	replay_deliver(server); /* what is held back comes first */
	while (pipeline_next_made_up(&server->pipeline, &entry)) {
		if (entry.tag)
			prepared_journal_commit(&server->link.journal, entry.tag);
		if (!client->conn.is_doomed)
			stream_put(&client->conn.stream, NULL,
			    entry.type == 'P' ? parse_complete : close_complete,
			    sizeof(parse_complete));
	}
}
