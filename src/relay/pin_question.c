/*
 * Builds the question from the parts that are needed, reads the answer, and decides
 * whether the server stays.  Each row of the answer has one column: a letter for the
 * kind, and for settings a number that stands for all of them.
 */
#include "relay/pin_question.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "pool/pins.h"
#include "relay/session_state.h"
#include "relay/statements.h"
#include "wire/codec.h"

enum {
	SETTINGS =
	    LEAK_BIT(SET) | LEAK_BIT(ROLE) | LEAK_BIT(AUTHORIZATION) | LEAK_BIT(CONFIG),
	/* no query tells whether a library was loaded */
	UNASKED = LEAK_BIT(LOAD),
	/* an answer is longer only if the server is none */
	ROW_MOST = 16,
	/* a cancel request for the client's query may come late */
	ATTEMPTS = 3,
};

#define LOG_INTERVAL_US (UINT64_C(3600) * 1000000)

/* ---- the question ---- */

static const struct part {
	uint16_t kinds;
	char letter;
	const char *from; /* behind SELECT 'letter' */
} parts[] = {
    {LEAK_BIT(TEMP), 't',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_depend WHERE "
	"refclassid='pg_catalog.pg_namespace'::pg_catalog.regclass AND "
	"refobjid=pg_catalog.pg_my_temp_schema())"},
    {LEAK_BIT(CURSOR), 'c',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_cursors WHERE is_holdable)"},
    {LEAK_BIT(LISTEN), 'l',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_listening_channels())"},
    {LEAK_BIT(PREPARE), 'p',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE name NOT "
	"ILIKE 'PGBOUNCER%')"},
    {LEAK_BIT(ADVISORY), 'a',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype='advisory' AND "
	"pid=pg_catalog.pg_backend_pid())"},
};

/* The settings of the session, apart from the parameters that are tracked per client,
 * and the two that pg_settings does not show. */
static void put_settings(const struct server *server, struct buf *sql)
{
	const struct vars_schema *schema = server->conn.site->vars;

	buf_put_text(sql,
	    "||pg_catalog.hashtext(pg_catalog.string_agg(s, ',')) FROM (SELECT "
	    "name||'='||setting AS s FROM pg_catalog.pg_settings WHERE "
	    "source='session' AND pg_catalog.lower(name) NOT IN ('");
	for (size_t i = 0; i < vars_schema_count(schema); i++) {
		if (!vars_get(&server->vars, i))
			continue;
		text_put_lower(sql, vars_schema_name(schema, i));
		buf_put_text(sql, "','");
	}
	buf_put_text(sql,
	    "') UNION ALL SELECT 'role='||r FROM pg_catalog.current_setting('role') r "
	    "WHERE r<>'none' UNION ALL SELECT 'user='||session_user WHERE "
	    "session_user<>");
	text_put_literal(sql, server->slot.pool->user->name);
	buf_put_text(sql, " ORDER BY 1) x HAVING pg_catalog.count(*)>0");
}

static void begin_part(char letter, struct buf *sql)
{
	buf_put_text(sql, sql->len ? " UNION ALL SELECT '" : "SELECT '");
	buf_put_u8(sql, (uint8_t)letter);
	buf_put_text(sql, "'");
}

static void put_question(const struct server *server, uint16_t kinds, struct buf *sql)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (kinds & parts[i].kinds) {
			begin_part(parts[i].letter, sql);
			buf_put_text(sql, parts[i].from);
		}
	if (kinds & SETTINGS) {
		begin_part('s', sql);
		put_settings(server, sql);
	}
}

static void ask(struct server *server, struct buf *sql)
{
	struct link_pin *pin = &server->link.pin;

	pin->found = 0;
	pin->is_asking = true;
	pin->is_wrong = pin->is_canceled = false;
	server->link.params.is_applying = true;
	server->link.params.apply_failed = false;
	server->link.params.apply_us = conn_now(&server->conn);
	if (sql->failed || server_command(server, buf_text(sql), 0) < 0 ||
	    server_sync(server) < 0)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
}

/* ---- what follows from the answer ---- */

void pin_question_put_kinds(uint16_t kinds, struct buf *out)
{
	for (const char *comma = ""; kinds; kinds &= (uint16_t)(kinds - 1)) {
		buf_put_text(out, comma);
		buf_put_text(out, leak_name((enum leak_kind)__builtin_ctz(kinds)));
		comma = ", ";
	}
}

/* The log tells of each kind once an hour, for each application. */
static void note_kinds(const struct client *client, uint16_t kinds)
{
	uint64_t now = conn_now(&client->conn);

	for (; kinds; kinds &= (uint16_t)(kinds - 1)) {
		enum leak_kind kind = (enum leak_kind)__builtin_ctz(kinds);
		struct leak_row *row = session_state_count(client, kind);
		if (!row || (row->logged_us && now - row->logged_us < LOG_INTERVAL_US))
			continue;
		row->logged_us = now;
		conn_log(&client->conn, LEVEL_LOG | KIND_POOLS,
		    "keeps its server: %s (application_name '%s')", leak_name(kind),
		    row->application_name);
	}
}

static void decide(struct server *server, struct client *client, bool has_ready)
{
	struct link_pin *pin = &server->link.pin;
	uint16_t left = pin->found | pin->lasting, before = pin->kinds;

	pin->kinds = left;
	pin->made = 0;
	pin->may_have_ended = pin->resets_all = false;
	if (!left) {
		pins_drop(&server->slot);
		return;
	}
	if (pins_claim(&server->slot)) {
		if (!before)
			pin->since_us = conn_now(&server->conn);
		pin->transactions = before ? pin->transactions : 0;
		note_kinds(client, left & (uint16_t)~before);
		return;
	}
	/* it is cleaned when it is given back */
	const char *name = leak_name((enum leak_kind)__builtin_ctz(left));
	pin->kinds = pin->lasting = 0;
	server->leaks_left |= left;
	if (has_ready)
		client_fatal(client, ERROR_PINS_FULL, name);
	else
		client_error(client, ERROR_PINS_FULL, name);
}

/* ---- calls of the relay ---- */

/* What has to be asked about; 0: nothing has changed. */
static uint16_t kinds_to_ask(const struct server *server)
{
	const struct link_pin *pin = &server->link.pin;
	uint16_t kinds = pin->made & LEAK_KINDS;

	if (pin->made & LEAK_UNSEEN)
		return LEAK_KINDS;
	return pin->made || pin->may_have_ended ? kinds | pin->kinds : 0;
}

bool pin_question_ask(struct server *server, struct client *client, bool has_ready)
{
	struct link_pin *pin = &server->link.pin;
	struct buf sql;
	bool is_asked;

	if (!session_state_are_kept(server) || server->status != 'I')
		return false;
	/* statements that are not tracked are executed unseen */
	if (!has_ready && (pin->kinds & LEAK_BIT(PREPARE)) &&
	    !statements_are_tracked(client, server))
		pin->made |= LEAK_UNSEEN;
	pin->asked = kinds_to_ask(server);
	if (!pin->asked && !pin->made)
		return false;
	if (pin->made & LEAK_PLACEHOLDER)
		pin->lasting |= LEAK_BIT(SET);
	buf_init(&sql, 0);
	put_question(server, pin->asked, &sql);
	is_asked = sql.len > 0;
	pin->found = 0;
	if (is_asked)
		ask(server, &sql);
	else
		decide(server, client, has_ready);
	buf_done(&sql);
	return is_asked;
}

bool pin_question_ask_own(struct server *server)
{
	const char *query = server->slot.pool->database->config->connect_query;
	struct buf sql;

	if (server->has_own_settings || !query || !*query ||
	    !session_state_are_kept(server))
		return false;
	server->link.pin.asked = SETTINGS;
	server->link.pin.is_of_own = true;
	buf_init(&sql, 0);
	put_question(server, SETTINGS, &sql);
	ask(server, &sql);
	buf_done(&sql);
	return true;
}

/* The pooler's SETs, which may run before it, are Queries. */
bool pin_question_is_next(const struct server *server)
{
	return server->link.pin.is_asking && pipeline_count(&server->pipeline) &&
	       pipeline_at(&server->pipeline, 0)->type != 'Q';
}

/* False: no server sends such a row. */
static bool note_row(struct server *server, const char *row)
{
	struct link_pin *pin = &server->link.pin;
	long number;
	char *end;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (*row == parts[i].letter && !row[1]) {
			pin->found |= parts[i].kinds;
			return (pin->asked & parts[i].kinds) != 0;
		}
	number = strtol(row + 1, &end, 10);
	if (*row != 's' || end == row + 1 || *end || !(pin->asked & SETTINGS))
		return false;
	if (pin->is_of_own)
		server->own_settings = (uint32_t)number;
	else if (!server->has_own_settings || server->own_settings != (uint32_t)number)
		pin->found |= LEAK_BIT(SET);
	return true;
}

void pin_question_note_row(struct server *server, const struct message *m)
{
	const uint8_t *value;
	char row[ROW_MOST];
	size_t count, len;
	struct cursor c;

	cursor_init(&c, message_body(m), message_body_len(m));
	if (codec_read_row_count(&c, &count) < 0 || count != 1 ||
	    codec_next_field(&c, &value, &len) < 0 || !value || !len ||
	    len >= sizeof(row)) {
		server->link.pin.is_wrong = true;
		return;
	}
	memcpy(row, value, len);
	row[len] = '\0';
	if (!note_row(server, row))
		server->link.pin.is_wrong = true;
}

void pin_question_note_error(struct server *server, const struct message *m)
{
	struct error_fields f;

	codec_read_error(message_body(m), message_body_len(m), &f);
	conn_log(&server->conn, LEVEL_WARNING | KIND_SERVERS,
	    "what is left in the session is not known: %s: %s", f.severity, f.message);
	if (strcmp(f.sqlstate, error_sqlstate(ERROR_QUERY_CANCELED)) == 0)
		server->link.pin.is_canceled = true;
	else
		server->link.pin.is_wrong = true;
}

int pin_question_answered(struct server *server, struct client *client, bool has_ready)
{
	struct link_pin *pin = &server->link.pin;

	pin->is_asking = server->link.params.is_applying = false;
	server->is_ready = server->status == 'I';
	if (pin->is_canceled && ++pin->attempts < ATTEMPTS) {
		pin->is_canceled = false;
		if (pin->is_of_own)
			return pin_question_ask_own(server);
		pin->may_have_ended = true;
		return pin_question_ask(server, client, has_ready);
	}
	if (pin->is_wrong || pin->is_canceled || server->status != 'I') {
		server_retire(server, error_text(ERROR_STATE_UNKNOWN));
		return -1;
	}
	pin->attempts = 0;
	if (pin->is_of_own)
		server->has_own_settings = true;
	else
		decide(server, client, has_ready);
	pin->is_of_own = false;
	return 0;
}
