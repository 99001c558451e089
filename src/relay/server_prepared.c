#include "relay/server_prepared.h"

#include <stdlib.h>

#include "base/mem.h"
#include "relay/long_text.h"
#include "wire/codec.h"
#include "wire/kept_settings.h"

/* What server_prepared_copy sends at most.  A Parse takes PostgreSQL 40 to 400 us. */
enum { COPIED_MOST = 16, COPIED_BYTES_MOST = 16384 };

int server_prepared_limit(const struct server *server)
{
	return scope_max_prepared_statements(scope_of_pool(server->slot.pool));
}

int server_prepared_note(struct server *server, uint32_t tag,
    enum prepared_change change, const char *name, struct prepared_text *text)
{
	return prepared_journal_note(&server->link.journal, tag, change, name, text);
}

/* ---- sending ---- */

static int send_buf(struct server *server, struct buf *buf)
{
	int failed = buf->failed ? -1 : 0;

	conn_send(&server->conn, buf);
	buf_done(buf);
	return failed;
}

int server_prepared_close(struct server *server, const char *name, uint32_t tag)
{
	struct buf buf;

	buf_init(&buf, 0);
	prepared_put_close(name, &buf);
	if (send_buf(server, &buf) < 0)
		return -1;
	return server_owe(server, 'C', OWED_SELF, tag);
}

static int send_parse(
    struct server *server, const struct prepared_text *text, uint32_t tag)
{
	struct buf buf;
	struct buf sql;
	int failed;

	if (text->registry == server->conn.site->sql_prepared) {
		buf_init(&sql, 0);
		buf_printf(&sql, "PREPARE \"%s\"", text->name);
		buf_put_text(&sql, prepared_sql(text));
		failed = sql.failed ? -1 : server_command(server, buf_text(&sql), tag);
		buf_done(&sql);
		return failed;
	}
	buf_init(&buf, 0);
	if (long_text_is(text))
		prepared_put_parse_begin(text, long_text_len(text), &buf);
	else
		prepared_put_parse(text, &buf);
	if (send_buf(server, &buf) < 0)
		return -1;
	if (long_text_is(text))
		long_text_put(text, &server->conn.stream);
	return server_owe(server, 'P', OWED_SELF, tag);
}

/* ---- readings ---- */

/* The parameter values with which the server will read the next message.  NULL: no
 * memory, or they are not known because messages that were sent may change them, or
 * because the server does not report some; or the client may have temporary tables,
 * which only its texts find. */
static const char *reading(const struct server *server)
{
	const struct reset_effects *sent = &server->link.params.reset;
	uint64_t bits = sent->session | sent->local | sent->set | sent->hidden;

	if (bits & vars_schema_read_bits(server->conn.site->vars) ||
	    server->link.schema.is_read_apart || server->link.schema.made_temp ||
	    server->link.pin.kinds & LEAK_BIT(TEMP) ||
	    kept_settings_are_read_apart(server->kept))
		return NULL;
	if (server->link.params.may_undo_set && pipeline_count(&server->pipeline) > 0)
		return NULL;
	return vars_reading(&server->vars);
}

/* The reading of a statement that is prepared now, which may be put into the room. */
static const char *reading_now(const struct server *server, struct buf *room)
{
	const char *values = reading(server);
	uint32_t generation = server_generation(server);

	if (!values || generation == PREPARED_GENERATION)
		return values;
	prepared_put_reading(values, generation, room);
	return room->failed ? NULL : (const char *)room->bytes;
}

struct prepared_text *server_prepared_shared(
    const struct server *server, const uint8_t *key, size_t len)
{
	struct prepared_text *found = NULL;
	const char *values;
	struct buf room;

	buf_init(&room, 0);
	values = reading_now(server, &room);
	if (values)
		found = prepared_find(server->conn.site->prepared, values, key, len);
	buf_done(&room);
	return found;
}

struct prepared_text *server_prepared_intern(const struct server *server,
    struct prepared_registry *r, const uint8_t *key, size_t len,
    const struct sql_effects *effects)
{
	struct prepared_text *text;
	const char *values;
	struct buf room;

	buf_init(&room, 0);
	values = effects->reads_clock ? NULL : reading_now(server, &room);
	text = values ? prepared_intern(r, values, key, len)
		      : prepared_intern_private(r, key, len);
	buf_done(&room);
	if (text && prepared_is_unshared(text))
		text->effects = *effects;
	return text;
}

struct prepared_text *server_prepared_variant(
    const struct server *server, struct prepared_text *text)
{
	const char *values = reading(server);

	if (!values && server_prepared_is_held(server, text, 0))
		return prepared_ref(text);
	return prepared_variant(text, values);
}

/* ---- the set ---- */

bool server_prepared_is_held(
    const struct server *server, const struct prepared_text *text, uint32_t generation)
{
	return prepared_set_is_good(server->statements, text, generation);
}

int server_prepared_add(struct server *server, struct prepared_text *text, uint32_t tag)
{
	if (server_prepared_note(server, tag, PREPARED_SET_ADDED, NULL, text) < 0)
		return -1;
	if (server->link.schema.is_unusual ||
	    kept_settings_has(server->kept, "client_min_messages"))
		prepared_journal_mute(server->link.journal);
	if (prepared_set_add(&server->statements, text) < 0)
		return -1;
	prepared_set_date(server->statements, text, server_generation(server));
	return 0;
}

int server_prepared_drop(struct server *server, struct prepared_text *text)
{
	bool is_spoilt = prepared_set_is_spoilt(server->statements, text);
	uint32_t tag;

	if (!prepared_set_has(server->statements, text))
		return 0;
	tag = server_next_tag(server);
	if (server_prepared_note(server, tag,
		is_spoilt ? PREPARED_SPOILT_REMOVED : PREPARED_SET_REMOVED, NULL,
		text) < 0)
		return -1;
	prepared_set_del(&server->statements, text);
	return server_prepared_close(server, text->name, tag);
}

int server_prepared_close_spoilt(struct server *server, struct prepared_text *text)
{
	if (!prepared_set_is_spoilt(server->statements, text))
		return 0;
	return server_prepared_drop(server, text);
}

int server_prepared_make_room(struct server *server, size_t room)
{
	/* an EXECUTE needs two statements: its own, and the one that it runs */
	int max = server_prepared_limit(server);
	struct scope scope = scope_of_pool(server->slot.pool);
	int least = scope_track_sql_prepare(scope) ||
			    scope_session_state(scope) == SESSION_STATE_KEEP ||
			    prepared_registry_count(server->conn.site->sql_prepared)
			? 2
			: 1;
	size_t most = ((size_t)(max > least ? max : least)) - room;
	struct prepared_text *old;
	int failed = 0;

	while (!failed && (old = prepared_set_oldest(server->statements, most)))
		failed = server_prepared_drop(server, old);
	return failed;
}

int server_prepared_ensure(
    struct server *server, struct prepared_text *text, uint32_t generation)
{
	uint32_t tag;

	if (server_prepared_is_held(server, text, generation)) {
		prepared_set_touch(server->statements, text);
		return 0;
	}
	if (server_prepared_drop(server, text) < 0)
		return -1;
	tag = server_next_tag(server);
	if (server_prepared_add(server, text, tag) < 0)
		return -1;
	server->slot.pool->stats.server_parse_count++;
	if (send_parse(server, text, tag) < 0)
		return -1;
	return server_prepared_make_room(server, 0);
}

static int compare_hits(const void *a, const void *b)
{
	const struct prepared_item *x = a, *y = b;

	return (x->text->hits < y->text->hits) - (x->text->hits > y->text->hits);
}

void server_prepared_copy(struct server *server, const struct server *model)
{
	size_t count = prepared_set_count(model->statements), bytes = 0, sent = 0;
	struct prepared_item *items = mem_alloc((count + 1) * sizeof(*items));
	const struct site *site = server->conn.site;
	int failed = 0;

	server_begin_test(server, "statements could not be prepared");
	server_find_schema(server);
	prepared_set_list(model->statements, items);
	qsort(items, count, sizeof(*items), compare_hits);
	for (size_t i = 0; i < count && !failed && sent < COPIED_MOST; i++) {
		struct prepared_text *text = items[i].text;
		/* only what the server would read as the clients do */
		if (items[i].is_marked || text->registry != site->prepared ||
		    !text->context || long_text_is(text) ||
		    bytes + text->stored->len > COPIED_BYTES_MOST ||
		    prepared_generation(text) != server_generation(server) ||
		    !prepared_is_read_as(text, vars_reading(&server->vars)))
			continue;
		bytes += text->stored->len;
		sent++;
		failed = prepared_set_add(&server->statements, text);
		prepared_set_date(server->statements, text, server_generation(server));
		if (!failed)
			failed = send_parse(server, text, 0);
		server->slot.pool->stats.server_parse_count++;
	}
	mem_free(items);
	if (failed || server_sync(server) < 0)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
}

void server_prepared_doubt(struct server *server)
{
	prepared_set_spoil_all(server->statements);
}

int server_prepared_block(struct server *server, struct prepared_text *text)
{
	struct buf buf;
	uint32_t tag;

	/* it is not the one that makes room */
	if (prepared_set_has(server->statements, text)) {
		prepared_set_touch(server->statements, text);
		return 0;
	}
	tag = server_next_tag(server);
	if (server_prepared_add(server, text, tag) < 0)
		return -1;
	prepared_set_spoil(server->statements, text);
	buf_init(&buf, 0);
	codec_put_parse(&buf, text->name, "");
	if (send_buf(server, &buf) < 0)
		return -1;
	return server_owe(server, 'P', OWED_SELF, tag);
}
