/*
 * Prepared statements of clients whose server changes under them.  Data structures and
 * message rewriting are wire/prepared's, the order of answers wire/pipeline's; here is
 * what is sent instead of what a client sent.
 */
#include "session/statements.h"

#include <string.h>

#include "session/leaks.h"
#include "session/segment.h"
#include "wire/codec.h"
#include "wire/prepared.h"

/* A server-side name that no text ever gets: what is unknown stays unknown. */
static const char no_statement[] = "PGBOUNCER_0";

/* An error that PostgreSQL will give about a name of ours, due under the client's. */
struct statement_rename {
	struct node node;
	uint32_t tag;
	char ours[sizeof(((struct prepared_text *)0)->name)];
	char theirs[];
};

static int statement_limit(const struct server *server)
{
	return site_settings(server->conn.site)->max_prepared_statements;
}

/* What was last parsed under no name, for a Bind that comes when the server is another
 * one.  Longer texts are not kept: such a Bind then fails, as without a pooler it fails
 * after the statement is gone. */
enum { UNNAMED_MAX = 16 * 1024 };

struct unnamed_statement {
	uint32_t tag;    /* of its Parse */
	uint16_t leaves; /* struct leak_look.all */
	size_t size;
	uint8_t parse[]; /* the whole message */
};

void statements_forget_unnamed(struct client *client)
{
	mem_free(client->unnamed);
	client->unnamed = NULL;
}

bool statements_are_tracked(const struct client *client, const struct server *server)
{
	if (client->names)
		return true;
	return statement_limit(server) > 0 &&
	       pool_mode(server->seat.pool) != POOL_MODE_SESSION &&
	       !server->seat.is_replication;
}

/* ---- what is in flight ---- */

static void drop_renames(struct server *server)
{
	struct node *n;
	while ((n = list_pop_front(&server->renames)))
		mem_free(container_of(n, struct statement_rename, node));
}

static struct statement_rename *find_rename(const struct server *server, uint32_t tag)
{
	struct statement_rename *r;
	if (tag)
		list_for (r, &server->renames, node)
			if (r->tag == tag)
				return r;
	return NULL;
}

static void end_rename(struct server *server, uint32_t tag)
{
	struct statement_rename *r = find_rename(server, tag);
	if (!r)
		return;
	list_remove(&server->renames, &r->node);
	mem_free(r);
}

static int note_rename(
    struct server *server, uint32_t tag, const char *ours, const char *theirs)
{
	struct statement_rename *r = try_alloc(sizeof(*r) + strlen(theirs) + 1);
	if (!r)
		return -1;
	*r = (struct statement_rename){.tag = tag};
	memcpy(r->ours, ours, strlen(ours) + 1);
	memcpy(r->theirs, theirs, strlen(theirs) + 1);
	list_push_back(&server->renames, &r->node);
	return 0;
}

/* The message of this tag did nothing. */
static void fail_tag(struct server *server, uint32_t tag)
{
	struct client *client = server_client(server);
	prepared_journal_fail(&server->journal, tag);
	end_rename(server, tag);
	if (client && client->unnamed && client->unnamed->tag == tag)
		statements_forget_unnamed(client);
}

/* An entry of the ledger gets no answer: an earlier one failed. */
static void on_drop(void *arg, const struct pipeline_entry *entry)
{
	struct server *server = arg;
	if (entry->tag)
		fail_tag(server, entry->tag);
}

void statements_link(struct server *server)
{
	pipeline_on_drop(&server->pipeline, on_drop, server);
	server->has_unnamed = false;
	server->has_forgetting_portal = false;
	server->is_segment_spoilt = false;
	server->is_trying_again = false;
}

void statements_unlink(struct server *server)
{
	prepared_journal_clear(&server->journal);
	drop_renames(server);
	segment_drop(server);
}

static uint32_t next_tag(struct server *server)
{
	if (++server->last_tag < LEAKS_TAG_END)
		server->last_tag = LEAKS_TAG_END;
	return server->last_tag;
}

/* ---- sending ---- */

static enum statement_fate no_memory(struct client *client, struct server *server)
{
	server_retire(server, "out of memory");
	client_fatal(client, ERROR_OUT_OF_MEMORY);
	return STATEMENT_BROKEN;
}

static int owe(struct server *server, uint8_t type, enum owed_to to, uint32_t tag)
{
	server->is_ready = server->is_ready && to == OWED_MADE_UP;
	return pipeline_owe(&server->pipeline, type, to, tag);
}

static int note(struct server *server, uint32_t tag, enum prepared_change change,
    const char *name, struct prepared_text *text)
{
	return prepared_journal_note(&server->journal, tag, change, name, text);
}

static int send_close(struct server *server, const char *name, uint32_t tag)
{
	struct buf buf;
	buf_init(&buf, 0);
	prepared_put_close(name, &buf);
	conn_send(&server->conn, &buf);
	buf_done(&buf);
	return owe(server, 'C', OWED_SELF, tag);
}

/* The server holds one more text from the message of this tag on. */
static int add_to_set(struct server *server, struct prepared_text *text, uint32_t tag)
{
	if (note(server, tag, PREPARED_SET_ADDED, NULL, text) < 0)
		return -1;
	return prepared_set_add(&server->statements, text);
}

/* A Parse of it is not to clash with what the server holds (it does when ParseComplete
 * cannot be made up: in an aborted transaction). */
static int drop_from_set(struct server *server, struct prepared_text *text)
{
	uint32_t tag;
	if (!prepared_set_has(server->statements, text))
		return 0;
	tag = next_tag(server);
	if (note(server, tag, PREPARED_SET_REMOVED, NULL, text) < 0)
		return -1;
	prepared_set_del(&server->statements, text);
	return send_close(server, text->name, tag);
}

/* The oldest ones make room; sent behind the Parse that made it necessary. */
static int evict(struct server *server)
{
	int max = statement_limit(server);
	struct prepared_text *old;
	int failed = 0;

	while (failed == 0 && (old = prepared_set_evict(
				   &server->statements, max > 0 ? (size_t)max : 1))) {
		uint32_t tag = next_tag(server);
		failed = note(server, tag, PREPARED_SET_REMOVED, NULL, old);
		if (failed == 0)
			failed = send_close(server, old->name, tag);
		prepared_unref(old);
	}
	return failed;
}

/* Does the server have the text, and as it was parsed? */
static bool is_held(const struct server *server, const struct prepared_text *text)
{
	return prepared_set_has(server->statements, text) &&
	       !prepared_set_is_spoilt(server->statements, text);
}

/* What is of no use any more is closed first, so that a Parse cannot clash. */
static int close_spoilt(struct server *server, struct prepared_text *text)
{
	uint32_t tag;
	if (!prepared_set_is_spoilt(server->statements, text))
		return 0;
	tag = next_tag(server);
	if (note(server, tag, PREPARED_SET_REMOVED, NULL, text) < 0)
		return -1;
	prepared_set_del(&server->statements, text);
	return send_close(server, text->name, tag);
}

/* Make sure that the server holds the text when it comes to the next message. */
static int ensure(struct server *server, struct prepared_text *text)
{
	struct buf buf;
	uint32_t tag;

	if (is_held(server, text)) {
		prepared_set_touch(server->statements, text);
		return 0;
	}
	if (close_spoilt(server, text) < 0)
		return -1;
	tag = next_tag(server);
	if (add_to_set(server, text, tag) < 0)
		return -1;
	buf_init(&buf, 0);
	prepared_put_parse(text, &buf);
	conn_send(&server->conn, &buf);
	buf_done(&buf);
	server->seat.pool->stats.server_parse_count++;
	if (owe(server, 'P', OWED_SELF, tag) < 0)
		return -1;
	return evict(server);
}

/* The message with a name of ours; it goes on from *rest in the client's bytes. */
static int send_renamed(struct server *server, const struct message *m,
    const char *name, uint32_t tag, size_t *rest)
{
	struct buf buf;
	buf_init(&buf, 0);
	prepared_rename(m->bytes, m->have, m->size, name, &buf, rest);
	conn_send(&server->conn, &buf);
	buf_done(&buf);
	return owe(server, m->type, OWED_CLIENT, tag);
}

/* Errors about it are to name it as the client does. */
static int send_renamed_back(struct server *server, const struct message *m,
    const char *ours, const char *theirs, size_t *rest)
{
	uint32_t tag = next_tag(server);
	if (note_rename(server, tag, ours, theirs) < 0)
		return -1;
	return send_renamed(server, m, ours, tag, rest);
}

/* ---- Parse ---- */

/* May ParseComplete be made up?  Only if the server would certainly have said it: it
 * holds the text, and no transaction is aborted or may yet be by what is in flight. */
static bool may_make_up_parse(
    const struct server *server, const struct prepared_text *text)
{
	return server->status != 'E' && server->pipeline.syncs == 0 &&
	       is_held(server, text);
}

/* The name is taken: PostgreSQL looks at the text first and complains then. */
static int parse_again(struct server *server, const struct message *m, const char *name,
    struct prepared_text *taken, size_t *rest)
{
	if (ensure(server, taken) < 0)
		return -1;
	return send_renamed_back(server, m, taken->name, name, rest);
}

static int parse_new(struct client *client, struct server *server,
    const struct message *m, const char *name, struct prepared_text *text, size_t *rest,
    enum statement_fate *fate)
{
	bool is_made_up = may_make_up_parse(server, text);
	uint32_t tag;

	if (!is_made_up && close_spoilt(server, text) < 0)
		return -1;
	if (is_made_up) {
		tag = next_tag(server);
		if (note(server, tag, PREPARED_NAME_ADDED, name, text) < 0 ||
		    prepared_names_put(&client->names, name, text) < 0)
			return -1;
		*fate = STATEMENT_DONE;
		prepared_set_touch(server->statements, text);
		return owe(server, 'P', OWED_MADE_UP, tag);
	}
	if (drop_from_set(server, text) < 0)
		return -1;
	tag = next_tag(server);
	if (note(server, tag, PREPARED_NAME_ADDED, name, text) < 0 ||
	    prepared_names_put(&client->names, name, text) < 0 ||
	    add_to_set(server, text, tag) < 0)
		return -1;
	server->seat.pool->stats.server_parse_count++;
	if (send_renamed(server, m, text->name, tag, rest) < 0)
		return -1;
	stream_put(&server->conn.stream, m->block, m->bytes + *rest, m->have - *rest);
	*fate = STATEMENT_DONE;
	return evict(server);
}

static enum statement_fate take_parse(struct client *client, struct server *server,
    const struct message *m, const char *name, size_t *rest)
{
	struct prepared_text *taken, *text;
	enum statement_fate fate = STATEMENT_RENAMED;
	int failed;

	if (!message_is_whole(m))
		return STATEMENT_MORE;
	server->seat.pool->stats.client_parse_count += !server->is_trying_again;
	taken = prepared_names_find(client->names, name);
	if (taken) {
		failed = parse_again(server, m, name, taken, rest);
		return failed ? no_memory(client, server) : fate;
	}
	text = prepared_intern(
	    server->conn.site->prepared, m->bytes + *rest, (size_t)m->size - *rest);
	if (!text)
		return no_memory(client, server);
	text->leaves = server->leaks.looked;
	text->resets = server->looked_reset;
	if (server->pipeline.syncs > 0 && prepared_set_has(server->statements, text)) {
		prepared_unref(text);
		return STATEMENT_WAIT;
	}
	failed = parse_new(client, server, m, name, text, rest, &fate);
	prepared_unref(text);
	return failed ? no_memory(client, server) : fate;
}

/* ---- Bind, Describe ---- */

static enum statement_fate take_use(struct client *client, struct server *server,
    const struct message *m, const char *name, size_t *rest)
{
	struct prepared_text *text = prepared_names_find(client->names, name);
	int failed;

	if (m->type == 'B' && !server->is_trying_again)
		server->seat.pool->stats.bind_count++;
	if (!text) {
		failed = send_renamed_back(server, m, no_statement, name, rest);
		return failed ? no_memory(client, server) : STATEMENT_RENAMED;
	}
	failed = ensure(server, text);
	text->hits += !server->is_trying_again;
	text->last_use_us = conn_now(&server->conn);
	if (text->forgets && m->type == 'B')
		server->has_forgetting_portal = true;
	if (m->type == 'B') {
		leaks_expect(server, text->leaves);
		reset_add(&server->reset, &text->resets);
	}
	segment_begin(server, m);
	if (failed == 0)
		failed = send_renamed_back(server, m, text->name, name, rest);
	return failed ? no_memory(client, server) : STATEMENT_RENAMED;
}

/* ---- Close ---- */

static enum statement_fate take_close(
    struct client *client, struct server *server, const char *name)
{
	struct prepared_text *text = prepared_names_find(client->names, name);
	uint32_t tag = 0;

	if (text) {
		tag = next_tag(server);
		if (note(server, tag, PREPARED_NAME_REMOVED, name, text) < 0)
			return no_memory(client, server);
		prepared_names_del(&client->names, name);
	}
	if (owe(server, 'C', OWED_MADE_UP, tag) < 0)
		return no_memory(client, server);
	return STATEMENT_DONE;
}

/* ---- the unnamed statement ---- */

static int keep_unnamed(struct client *client, const struct server *server,
    const struct message *m, uint32_t tag)
{
	struct unnamed_statement *u;
	statements_forget_unnamed(client);
	if (m->size > UNNAMED_MAX || !message_is_whole(m))
		return 0;
	u = try_alloc(sizeof(*u) + m->have);
	if (!u)
		return -1;
	u->tag = tag;
	u->leaves = server->leaks.looked;
	u->size = m->have;
	memcpy(u->parse, m->bytes, m->have);
	client->unnamed = u;
	return 0;
}

/* What this server has under no name may be somebody else's: it is replaced by the
 * client's own, or closed so that PostgreSQL says that there is none. */
static int bring_unnamed(struct client *client, struct server *server)
{
	const struct unnamed_statement *u = client->unnamed;

	if (server->has_unnamed)
		return 0;
	server->has_unnamed = true;
	if (!u)
		return send_close(server, "", 0);
	if (stream_write(&server->conn.stream, u->parse, u->size) < 0)
		return -1;
	server->seat.pool->stats.server_parse_count++;
	return owe(server, 'P', OWED_SELF, 0);
}

static enum statement_fate parse_unnamed(
    struct client *client, struct server *server, const struct message *m, size_t *rest)
{
	uint32_t tag = next_tag(server);

	if (!message_is_whole(m) && m->size <= UNNAMED_MAX)
		return STATEMENT_MORE;
	if (prepared_is_forgetting((const char *)m->bytes + *rest, m->have - *rest))
		server->has_forgetting_portal = true;
	server->has_unnamed = true;
	*rest = 0;
	if (keep_unnamed(client, server, m, tag) < 0 ||
	    owe(server, 'P', OWED_CLIENT, tag) < 0)
		return no_memory(client, server);
	return STATEMENT_RENAMED;
}

static enum statement_fate take_unnamed(
    struct client *client, struct server *server, const struct message *m, size_t *rest)
{
	int failed = 0;

	if (m->type == 'P')
		return parse_unnamed(client, server, m, rest);
	if (m->type == 'C') {
		server->has_unnamed = true;
		statements_forget_unnamed(client);
	} else {
		failed = bring_unnamed(client, server);
		if (m->type == 'B' && client->unnamed)
			leaks_expect(server, client->unnamed->leaves);
	}
	return failed ? no_memory(client, server) : STATEMENT_FORWARD;
}

/* ---- the client's messages ---- */

static enum statement_fate take(
    struct client *client, struct server *server, const struct message *m, size_t *rest)
{
	const char *name = NULL;

	if (m->type == 'Q') {
		/* a simple query ends the unnamed statement */
		server->has_unnamed = true;
		statements_forget_unnamed(client);
		return STATEMENT_FORWARD;
	}
	switch (prepared_look(m->bytes, m->have, m->size, &name, rest)) {
	case PREPARED_PARTIAL:
		return STATEMENT_MORE;
	case PREPARED_UNNAMED:
		return take_unnamed(client, server, m, rest);
	case PREPARED_PORTAL:
	case PREPARED_BROKEN: /* PostgreSQL says what is wrong with it */
		return STATEMENT_FORWARD;
	case PREPARED_NAMED:
		break;
	}
	/* Behind a Sync it is not known what names and texts there are until it is
	 * known what before it failed. */
	if (server->journal && server->pipeline.syncs > 0)
		return STATEMENT_WAIT;
	if (m->type == 'P')
		return take_parse(client, server, m, name, rest);
	if (m->type == 'C')
		return message_is_whole(m) ? take_close(client, server, name)
					   : STATEMENT_MORE;
	return take_use(client, server, m, name, rest);
}

/* What gets no answer did not happen. */
static int undo_failed(struct client *client, struct server *server)
{
	return server->journal ? prepared_journal_undo(&server->journal, &client->names,
				     &server->statements)
			       : 0;
}

enum statement_fate statements_take(
    struct client *client, struct server *server, const struct message *m, size_t *rest)
{
	enum statement_fate fate = take(client, server, m, rest);
	if (fate != STATEMENT_BROKEN && undo_failed(client, server) < 0)
		return no_memory(client, server);
	return fate;
}

/* ---- the server's messages ---- */

/* Errors about statements are short. */
enum { ERROR_MAX = 256 * 1024 };

bool statements_want_whole(const struct server *server, const struct message *m)
{
	return server_has_forgotten(m) ||
	       (m->type == 'E' && m->size <= ERROR_MAX &&
		   (server->statements || !list_is_empty(&server->renames)));
}

static bool send_error_renamed(
    struct client *client, struct server *server, const struct message *m, uint32_t tag)
{
	struct statement_rename *r = find_rename(server, tag);
	struct buf buf;

	if (!r || !message_is_whole(m))
		return false;
	buf_init(&buf, 0);
	prepared_put_error_renamed(
	    message_body(m), message_body_len(m), r->ours, r->theirs, &buf);
	conn_send(&client->conn, &buf);
	buf_done(&buf);
	return true;
}

bool statements_is_for_client(
    const struct message *m, const struct pipeline_entry *done)
{
	return m->type == 'E' && done->type == 'P' && done->to == OWED_SELF;
}

bool statements_answered(struct client *client, struct server *server,
    const struct message *m, const struct pipeline_entry *done)
{
	bool is_sent = false;

	if (server_has_forgotten(m) && prepared_journal_forget(server->journal,
					   &client->names, &server->statements) < 0)
		no_memory(client, server);
	if (done->tag && m->type == 'E') {
		is_sent = !server->is_trying_again &&
			  send_error_renamed(client, server, m, done->tag);
		fail_tag(server, done->tag);
	} else if (done->tag) {
		prepared_journal_commit(&server->journal, done->tag);
		end_rename(server, done->tag);
	}
	if (undo_failed(client, server) < 0)
		no_memory(client, server);
	if (m->type == 'Z' && !server->is_trying_again &&
	    pipeline_is_settled(&server->pipeline))
		segment_end(server);
	return is_sent;
}

/* ---- lost statements ---- */

/* 26000: it is not there; 0A000: its result has other types since the table was
 * altered. */
static bool is_loss(const struct message *m)
{
	struct error_fields f;

	if (codec_read_error(message_body(m), message_body_len(m), &f) < 0)
		return false;
	return strcmp(f.sqlstate, "26000") == 0 || strcmp(f.sqlstate, "0A000") == 0;
}

/* The text that a Bind or Describe in flight is about, as far as the server has it. */
static struct prepared_text *used_text(
    const struct server *server, const struct pipeline_entry *entry)
{
	const struct statement_rename *r = NULL;

	if (entry->type == 'B' || entry->type == 'D')
		r = find_rename(server, entry->tag);
	return r ? prepared_set_find(server->statements, r->ours) : NULL;
}

/* Is the error the first answer to all that came since the last Sync, is all of that
 * kept, and has nothing come behind it? */
static bool has_whole_segment(const struct client *client, const struct server *server,
    const struct pipeline_entry *done)
{
	const struct segment *s = server->segment;

	return s && s->tag == done->tag && server->status == 'I' &&
	       client->conn.passing == 0 && !client->conn.is_doomed &&
	       pipeline_count(&server->pipeline) == s->is_ended &&
	       !pipeline_is_settled(&server->pipeline);
}

static bool may_send_segment_again(
    const struct server *server, const struct prepared_text *text)
{
	struct message first;
	bool is_described;

	segment_look(server->segment, &first, &is_described);
	return first.type == 'D' ||
	       prepared_may_bind_again(first.bytes, first.have, text, is_described);
}

bool statements_may_try_again(struct client *client, struct server *server,
    const struct message *m, const struct pipeline_entry *done)
{
	struct prepared_text *text;

	if (m->type != 'E' || !message_is_whole(m))
		return false;
	text = used_text(server, done);
	if (!text || !is_loss(m))
		return false;
	prepared_set_spoil(server->statements, text);
	return has_whole_segment(client, server, done) &&
	       may_send_segment_again(server, text);
}

void statements_make_up(struct client *client, struct server *server)
{
	static const uint8_t parse_complete[] = {'1', 0, 0, 0, 4};
	static const uint8_t close_complete[] = {'3', 0, 0, 0, 4};
	struct pipeline_entry entry;

	while (pipeline_next_made_up(&server->pipeline, &entry)) {
		if (entry.tag)
			prepared_journal_commit(&server->journal, entry.tag);
		stream_put(&client->conn.stream, NULL,
		    entry.type == 'P' ? parse_complete : close_complete,
		    sizeof(parse_complete));
	}
}
