/*
 * What one server connection holds.  Which clients know it, and as what, is not known
 * here.
 */
#include "session/holdings.h"

#include <string.h>

#include "wire/codec.h"
#include "wire/prepared.h"

const char holdings_no_statement[] = PREPARED_NONE;

int holdings_limit(const struct server *server)
{
	return site_settings(server->conn.site)->max_prepared_statements;
}

uint32_t holdings_next_tag(struct server *server)
{
	if (++server->last_tag < LEAK_KIND_COUNT + 1)
		server->last_tag = LEAK_KIND_COUNT + 1;
	return server->last_tag;
}

int holdings_owe(struct server *server, uint8_t type, enum owed_to to, uint32_t tag)
{
	server->is_ready = server->is_ready && to == OWED_MADE_UP;
	return pipeline_owe(&server->pipeline, type, to, tag);
}

int holdings_note(struct server *server, uint32_t tag, enum prepared_change change,
    const char *name, struct prepared_text *text)
{
	return prepared_journal_note(&server->journal, tag, change, name, text);
}

/* ---- sending ---- */

static int send_buf(struct server *server, struct buf *buf)
{
	int failed = buf->failed ? -1 : 0;

	conn_send(&server->conn, buf);
	buf_done(buf);
	return failed;
}

int holdings_close(struct server *server, const char *name, uint32_t tag)
{
	struct buf buf;

	buf_init(&buf, 0);
	prepared_put_close(name, &buf);
	if (send_buf(server, &buf) < 0)
		return -1;
	return holdings_owe(server, 'C', OWED_SELF, tag);
}

static bool is_of_sql(const struct server *server, const struct prepared_text *text)
{
	return text->registry == server->conn.site->sql_prepared;
}

static int send_prepare(
    struct server *server, const struct prepared_text *text, uint32_t tag)
{
	struct buf sql;
	int failed;

	buf_init(&sql, 0);
	buf_printf(&sql, "PREPARE \"%s\"", text->name);
	buf_put_text(&sql, prepared_sql(text));
	failed = sql.failed ? -1 : server_command(server, buf_text(&sql), tag);
	buf_done(&sql);
	return failed;
}

static int send_parse(
    struct server *server, const struct prepared_text *text, uint32_t tag)
{
	struct buf buf;

	if (is_of_sql(server, text))
		return send_prepare(server, text, tag);
	buf_init(&buf, 0);
	prepared_put_parse(text, &buf);
	if (send_buf(server, &buf) < 0)
		return -1;
	return holdings_owe(server, 'P', OWED_SELF, tag);
}

/* ---- the set ---- */

bool holdings_is_held(const struct server *server, const struct prepared_text *text)
{
	return prepared_set_has(server->statements, text) &&
	       !prepared_set_is_spoilt(server->statements, text);
}

int holdings_add(struct server *server, struct prepared_text *text, uint32_t tag)
{
	if (holdings_note(server, tag, PREPARED_SET_ADDED, NULL, text) < 0)
		return -1;
	return prepared_set_add(&server->statements, text);
}

int holdings_drop(struct server *server, struct prepared_text *text)
{
	bool is_spoilt = prepared_set_is_spoilt(server->statements, text);
	uint32_t tag;

	if (!prepared_set_has(server->statements, text))
		return 0;
	tag = holdings_next_tag(server);
	if (holdings_note(server, tag,
		is_spoilt ? PREPARED_SPOILT_REMOVED : PREPARED_SET_REMOVED, NULL,
		text) < 0)
		return -1;
	prepared_set_del(&server->statements, text);
	return holdings_close(server, text->name, tag);
}

int holdings_close_spoilt(struct server *server, struct prepared_text *text)
{
	if (!prepared_set_is_spoilt(server->statements, text))
		return 0;
	return holdings_drop(server, text);
}

/* An EXECUTE needs two: itself, and what it runs. */
static size_t most_held(const struct server *server)
{
	int max = holdings_limit(server);
	int least = site_settings(server->conn.site)->track_sql_prepare ? 2 : 1;

	return (size_t)(max > least ? max : least);
}

int holdings_make_room(struct server *server, size_t room)
{
	size_t most = most_held(server) - room;
	struct prepared_text *old;
	int failed = 0;

	while (!failed && (old = prepared_set_oldest(server->statements, most)))
		failed = holdings_drop(server, old);
	return failed;
}

int holdings_ensure(struct server *server, struct prepared_text *text)
{
	uint32_t tag;

	if (holdings_is_held(server, text)) {
		prepared_set_touch(server->statements, text);
		return 0;
	}
	if (holdings_close_spoilt(server, text) < 0)
		return -1;
	tag = holdings_next_tag(server);
	if (holdings_add(server, text, tag) < 0)
		return -1;
	server->seat.pool->stats.server_parse_count++;
	if (send_parse(server, text, tag) < 0)
		return -1;
	return holdings_make_room(server, 0);
}

int holdings_block(struct server *server, struct prepared_text *text)
{
	struct buf buf;
	uint32_t tag;

	if (prepared_set_has(server->statements, text))
		return 0;
	tag = holdings_next_tag(server);
	if (holdings_add(server, text, tag) < 0)
		return -1;
	prepared_set_spoil(server->statements, text);
	buf_init(&buf, 0);
	codec_put_parse(&buf, text->name, "");
	if (send_buf(server, &buf) < 0)
		return -1;
	return holdings_owe(server, 'P', OWED_SELF, tag);
}

/* ---- aliases ---- */

struct alias *holdings_alias_new(
    struct server *server, uint32_t tag, const char *ours, const char *theirs)
{
	struct alias *a = try_alloc(sizeof(*a) + strlen(theirs) + 1);

	if (!a)
		return NULL;
	*a = (struct alias){.tag = tag};
	memcpy(a->ours, ours, strlen(ours) + 1);
	memcpy(a->theirs, theirs, strlen(theirs) + 1);
	list_push_back(&server->aliases, &a->node);
	return a;
}

struct alias *holdings_alias(const struct server *server, uint32_t tag)
{
	struct alias *a;

	if (tag)
		list_for (a, &server->aliases, node)
			if (a->tag == tag)
				return a;
	return NULL;
}

static void end(struct server *server, struct alias *a)
{
	list_remove(&server->aliases, &a->node);
	prepared_unref(a->text);
	mem_free(a);
}

void holdings_alias_end(struct server *server, uint32_t tag)
{
	struct alias *a = holdings_alias(server, tag);

	if (a)
		end(server, a);
}

void holdings_alias_clear(struct server *server)
{
	struct node *n;

	while ((n = list_first(&server->aliases)))
		end(server, container_of(n, struct alias, node));
}
