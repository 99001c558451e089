#include "relay/session_state.h"

#include <string.h>

#include "base/map.h"
#include "base/text.h"
#include "pool/pins.h"
#include "pool/pool.h"
#include "relay/kept.h"
#include "relay/listen.h"
#include "relay/sql_commands.h"
#include "wire/codec.h"
#include "wire/pipeline.h"

/* An application_name is cut to the length that PostgreSQL keeps. */
enum { APPLICATION_NAME_MAX = 63 };
/* The error of a replaced statement is short. */
enum { ERROR_MAX = 4096 };

/* PostgreSQL reports that there is no such column (SQLSTATE_UNDEFINED_COLUMN), unless
 * the transaction has failed already or the statement is cancelled. */
static const char replacement[] = "SELECT \"refused by the pooler: session_state\"";
/* No statement of this name is ever made. */
static const char replaced_name[] = "PGBOUNCER_0";

/* ---- the table ---- */

struct leak_table {
	struct map *rows; /* struct leak_row by its key */
	struct list list;
};

struct leak_table *leak_table_new(void)
{
	struct leak_table *table = mem_zero(sizeof(*table));
	table->rows = map_new();
	list_init(&table->list);
	return table;
}

static void drop_row(struct leak_table *table, struct leak_row *row)
{
	map_del(table->rows, row->key, row->key_len);
	list_remove(&table->list, &row->node);
	mem_free(row);
}

void leak_table_free(struct leak_table **table)
{
	struct node *n;

	if (!*table)
		return;
	while ((n = list_first(&(*table)->list)))
		drop_row(*table, container_of(n, struct leak_row, node));
	map_free(&(*table)->rows);
	mem_free(*table);
	*table = NULL;
}

const struct list *session_state_rows(const struct leak_table *table)
{
	return &table->list;
}

static struct leak_row *add_row(
    struct leak_table *table, const struct buf *key, enum leak_kind kind)
{
	struct leak_row *row = mem_try(sizeof(*row) + key->len);

	if (!row)
		return NULL;
	if (table->list.count >= LEAK_ROWS_MAX)
		drop_row(table,
		    container_of(list_back(&table->list), struct leak_row, node));
	*row = (struct leak_row){.kind = kind, .key_len = key->len};
	memcpy(row->key, key->bytes, key->len);
	row->database = row->key + 1;
	row->user = row->database + strlen(row->database) + 1;
	row->application_name = row->user + strlen(row->user) + 1;
	map_put(table->rows, row->key, row->key_len, row);
	list_push_front(&table->list, &row->node);
	return row;
}

/* A leak for which there is no memory is not counted. */
struct leak_row *session_state_count(const struct client *client, enum leak_kind kind)
{
	struct leak_table *table = client->conn.site->leak_table;
	struct leak_row *row;
	struct buf key;

	buf_init_sure(&key);
	const struct pool *pool = client->request.in_pool.pool;
	const struct user *user = client->user ? client->user : pool->user;
	const char *name = vars_get(&client->params.vars, VAR_APPLICATION_NAME);
	size_t len = name ? strlen(name) : 0;
	if (len > APPLICATION_NAME_MAX)
		for (len = APPLICATION_NAME_MAX;
		     len && ((uint8_t)name[len] & 0xc0) == 0x80;)
			len--;
	buf_put_u8(&key, (uint8_t)kind);
	buf_put_str(&key, pool->database->name);
	buf_put_str(&key, user->name);
	buf_put(&key, name ? name : "", len);
	buf_put_u8(&key, 0);
	row = key.failed ? NULL : map_get(table->rows, key.bytes, key.len);
	if (row) {
		list_remove(&table->list, &row->node);
		list_push_front(&table->list, &row->node);
	} else if (!key.failed) {
		row = add_row(table, &key, kind);
	}
	if (row) {
		row->count++;
		row->last_us = conn_now(&client->conn);
	}
	buf_done(&key);
	return row;
}

/* ---- refusing ---- */

static bool is_watched(const struct server *server)
{
	return pool_mode(server->slot.pool) != POOL_MODE_SESSION &&
	       !server->slot.is_replication;
}

bool session_state_are_kept(const struct server *server)
{
	return scope_session_state(scope_of_pool(server->slot.pool)) ==
		   SESSION_STATE_KEEP &&
	       is_watched(server);
}

static void put_replacement(struct buf *out, const struct message *m)
{
	size_t begin;

	if (m->type == 'Q') {
		codec_put_query(out, replacement);
		return;
	}
	/* an unnamed replacement ends the unnamed statement, a named one does not */
	begin = codec_begin(out, 'P');
	buf_put_str(out, m->bytes[5] ? replaced_name : "");
	buf_put_str(out, replacement);
	buf_put_u16(out, 0);
	codec_end(out, begin);
}

static enum leak_fate refuse(struct client *client, struct server *server,
    const struct message *m, enum leak_kind kind)
{
	struct buf buf;

	session_state_count(client, kind);
	buf_init(&buf, 0);
	put_replacement(&buf, m);
	conn_send(&server->conn, &buf);
	buf_done(&buf);
	if (pipeline_owe(&server->pipeline, m->type, OWED_CLIENT, (uint32_t)kind + 1) <
	    0) {
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
		client_fatal(client, ERROR_OUT_OF_MEMORY);
		return LEAK_BROKEN;
	}
	client->is_dropping = true;
	return LEAK_REFUSED;
}

static void tell_refusal(struct client *client, enum leak_kind kind)
{
	char text[CLIENT_ERROR_MAX];
	struct buf error;

	if (session_state_are_kept(client_server(client))) {
		client_error(client, ERROR_PINS_FULL, leak_name(kind));
		return;
	}
	client->conn.site->errors_told[ERROR_STATE_REFUSED]++;
	buf_init(&error, 0);
	error_print(text, sizeof(text), ERROR_STATE_REFUSED, leak_name(kind));
	conn_log(&client->conn, LEVEL_WARNING | KIND_POOLER_ERRORS, "pooler error: %s",
	    text);
	codec_put_error(&error, "ERROR", error_sqlstate(ERROR_STATE_REFUSED), text,
	    NULL, leak_hint(kind));
	client_say(client, &error);
	buf_done(&error);
}

/* ---- the client's messages ---- */

static enum leak_kind first_kind(uint16_t kinds)
{
	return (enum leak_kind)__builtin_ctz(kinds);
}

static struct leak_look look(
    const struct server *server, const struct sql_effects *effects)
{
	struct leak_look look = {0};

	if (!is_watched(server))
		return look;
	look = effects_leaves(effects, &server->vars);
	if (!session_state_are_kept(server))
		look.all &= (uint16_t) ~(LEAK_UNSEEN | LEAK_PLACEHOLDER);
	/* a PREPARE command that the pooler tracks (sql_commands.h) is no leak */
	if (effects->command.kind == COMMAND_PREPARE && sql_is_on(server)) {
		look.first &= (uint16_t)~LEAK_BIT(PREPARE);
		look.all &= (uint16_t)~LEAK_BIT(PREPARE);
		look.all |= LEAK_HARMLESS_PREPARE;
	}
	return look;
}

enum leak_fate session_state_check(struct client *client, struct server *server,
    const struct message *m, const struct sql_effects *effects)
{
	int state = scope_session_state(scope_of_pool(server->slot.pool));
	uint16_t first;

	if (state != SESSION_STATE_REFUSE && state != SESSION_STATE_KEEP)
		return LEAK_PASS;
	first = look(server, effects).first;
	/* settings go along with the client */
	if (state == SESSION_STATE_KEEP)
		first &= (uint16_t)~LEAK_SETTINGS;
	if (state == SESSION_STATE_KEEP && listen_is_shared(server))
		first &= (uint16_t)~LEAK_BIT(LISTEN);
	if (!first || (state == SESSION_STATE_KEEP && pins_claim(&server->slot)))
		return LEAK_PASS;
	return refuse(client, server, m, first_kind(first));
}

void session_state_expect(struct server *server, const struct sql_effects *effects,
    const struct message *m, const char *text, size_t len)
{
	uint16_t all = look(server, effects).all;

	server->link.leaks.watch.expected |= all;
	server->link.leaks.watch.met &= (uint16_t)~all;
	server->may_notify |= effects->may_notify;
	if (!session_state_are_kept(server))
		return;
	server->link.pin.made |= all & LEAK_MADE;
	if (all & (LEAK_PLACEHOLDER | LEAK_UNSEEN))
		kept_note_names(server, m, text, len, all & LEAK_PLACEHOLDER);
	if (effects->resets.session == UINT64_MAX)
		server->link.pin.resets_all = true;
}

void session_state_check_call(struct server *server, const struct message *m)
{
	server->may_notify = true;
	uint16_t kinds = m->have < 5 + sizeof(uint32_t)
			     ? 0
			     : leak_of_function(get_u32(m->bytes + 5));
	if (session_state_are_kept(server)) {
		server->link.pin.made |= LEAK_UNSEEN;
		/* nobody reads its arguments */
		server->link.pin.has_unknown_name |= (kinds & LEAK_BIT(CONFIG)) != 0;
	} else if (is_watched(server)) {
		server->link.leaks.called |= kinds;
	}
}

/* ---- the server's messages ---- */

static bool is_refused(uint32_t due)
{
	return due > 0 && due < LEAK_TAG_END;
}

bool session_state_want_whole(const struct server *server, const struct message *m)
{
	return m->type == 'E' && m->size <= ERROR_MAX &&
	       is_refused(pipeline_head_tag(&server->pipeline));
}

static void count_all(struct client *client, struct server *server, uint16_t kinds)
{
	server->leaks_left |= kinds;
	for (; kinds; kinds &= (uint16_t)(kinds - 1))
		session_state_count(client, first_kind(kinds));
}

/* Whether a statement with this tag may end what keeps a server, or make some of it. */
static bool tag_may_end(const char *tag, size_t len)
{
	static const char *const others[] = {"BEGIN", "COMMIT", "SELECT", "INSERT",
	    "UPDATE", "DELETE", "MERGE", "FETCH", "MOVE", "COPY", "EXPLAIN", "SHOW"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (len >= strlen(others[i]) &&
		    memcmp(tag, others[i], strlen(others[i])) == 0)
			return false;
	return true;
}

static void note_tag(
    struct client *client, struct server *server, const char *tag, size_t len)
{
	struct leak_watch *watch = &server->link.leaks.watch;
	uint16_t cleared, kinds;

	if (!is_watched(server))
		return;
	kinds = leak_of_tag(watch, tag, len, &cleared);
	if (session_state_are_kept(server)) {
		/* the server tells what is left, see pin_question.h */
		server->link.pin.made |= kinds;
		if (text_is(tag, len, "CALL") || text_is(tag, len, "DO"))
			server->link.pin.made |= LEAK_UNSEEN;
		server->link.pin.lasting |= kinds & LEAK_BIT(LOAD);
		/* without either nothing is there that could end */
		if (server->link.pin.kinds || server->kept)
			server->link.pin.may_have_ended |= tag_may_end(tag, len);
		if (cleared == LEAK_KINDS ||
		    (server->link.pin.resets_all && text_is(tag, len, "RESET")))
			server->link.pin.lasting &= LEAK_BIT(LOAD);
		return;
	}
	if (cleared == LEAK_KINDS)
		cleared |= LEAK_READING;
	server->leaks_left &= (uint16_t)~cleared;
	count_all(client, server, kinds);
}

bool session_state_answered(
    struct client *client, struct server *server, const struct message *m, uint32_t due)
{
	struct error_fields f;

	if (m->type == 'V' && server->link.leaks.called) {
		count_all(client, server, server->link.leaks.called);
		server->link.leaks.called = 0;
	}
	if (m->type == 'C' && message_is_whole(m)) {
		size_t len = message_body_len(m);
		const char *tag = (const char *)message_body(m);
		len -= len > 0 && !tag[len - 1];
		if (client->listening)
			listen_note_tag(client, tag, len);
		if (server->link.leaks.watch.expected || leak_may_matter(tag, len) ||
		    session_state_are_kept(server))
			note_tag(client, server, tag, len);
		return false;
	}
	if (m->type == 'E' && client->listening)
		listen_note_tag(client, NULL, 0);
	if (m->type != 'E' || !is_refused(due) || !message_is_whole(m) ||
	    codec_read_error(message_body(m), message_body_len(m), &f) < 0 ||
	    strcmp(f.sqlstate, SQLSTATE_UNDEFINED_COLUMN) != 0)
		return false;
	tell_refusal(client, (enum leak_kind)(due - 1));
	return true;
}

void session_state_settle(struct server *server)
{
	server->link.leaks.watch = (struct leak_watch){0};
	server->link.leaks.called = 0;
}

/* What was left behind is also noted with session_state=forward, because the setting
 * may change. */
void session_state_release(struct server *server)
{
	uint16_t left = server->leaks_left;

	session_state_settle(server);
	if (!left)
		return;
	/* kept settings are put back one by one (kept.h): a reset query would also take
	 * back what connect_query has set */
	if (session_state_are_kept(server))
		left &= (uint16_t)~LEAK_READING;
	if (!left || scope_session_state(scope_of_pool(server->slot.pool)) ==
			 SESSION_STATE_FORWARD)
		return;
	/* no query unloads a library */
	if ((server->leaks_left & LEAK_BIT(LOAD)) && session_state_are_kept(server))
		pool_mark_slot_dirty(&server->slot, DIRTY_OLD);
	server->leaks_left = 0;
	server->slot.needs_reset = true;
}
