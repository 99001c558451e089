/*
 * Builds the question from the parts that are needed, reads the answer, and decides
 * whether the server stays.  Each row of the answer has two columns: a letter for the
 * kind, for settings with the name behind it; and the value of a setting.
 */
#include "relay/pin_question.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "pool/pins.h"
#include "relay/kept.h"
#include "relay/listen.h"
#include "relay/session_state.h"
#include "relay/statements.h"
#include "wire/codec.h"

enum {
	/* no query tells whether a library was loaded */
	UNASKED = LEAK_BIT(LOAD),
	/* names of channels, of at most 63 characters */
	CHANNEL_MOST = 4 * 63,
	/* a cancel request for the client's query may come late */
	ATTEMPTS = 3,
	/* a longer value is not sent; in hexadecimal it has twice as many digits */
	VALUE_MOST = KEPT_SETTINGS_MOST / 2,
};

#define LOG_INTERVAL_US (UINT64_C(3600) * 1000000)

/* ---- the question ---- */

/* Everything is named with its schema, and functions stand for operators: a client may
 * have put operators of its own in front of PostgreSQL's, and would hide from the
 * pooler what it leaves to the next client. */
static const struct part {
	uint16_t kinds;
	char letter;
	const char *from; /* behind SELECT 'letter' */
} parts[] = {
    {LEAK_BIT(TEMP), 't',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_depend WHERE "
	"pg_catalog.oideq(refclassid,'pg_catalog.pg_namespace'::pg_catalog.regclass) "
	"AND pg_catalog.oideq(refobjid,pg_catalog.pg_my_temp_schema()))"},
    {LEAK_BIT(CURSOR), 'c',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_cursors WHERE is_holdable)"},
    {LEAK_BIT(LISTEN), 'l', " FROM pg_catalog.pg_listening_channels() c"},
    {LEAK_BIT(PREPARE), 'p',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE NOT "
	"pg_catalog.texticlike(name,'PGBOUNCER%'))"},
    {LEAK_BIT(ADVISORY), 'a',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_locks WHERE "
	"pg_catalog.texteq(locktype,'advisory') AND "
	"pg_catalog.int4eq(pid,pg_catalog.pg_backend_pid()))"},
};

/* What ALTER ROLE and ALTER DATABASE set where a session begins, as far as it is not
 * listed by pg_settings: the value of the name n that counts for the role u. */
static const char set_by_alter[] =
    "(SELECT pg_catalog.substr(c,pg_catalog.int4pl(pg_catalog.length(n),2)) FROM "
    "pg_catalog.pg_db_role_setting d, pg_catalog.unnest(setconfig) c, z WHERE "
    "pg_catalog.texteq(pg_catalog.lower(pg_catalog.left(c,"
    "pg_catalog.int4pl(pg_catalog.length(n),1))),pg_catalog.concat(n,'=')) AND "
    "(pg_catalog.oideq(setdatabase,0::pg_catalog.oid) OR "
    "pg_catalog.oideq(setdatabase,z.d)) AND "
    "(pg_catalog.oideq(setrole,0::pg_catalog.oid) OR "
    "pg_catalog.oideq(setrole,z.r)) ORDER BY "
    "pg_catalog.oideq(setrole,0::pg_catalog.oid),"
    "pg_catalog.oideq(setdatabase,0::pg_catalog.oid) LIMIT 1)";

/* Names of parameters that functions of this database set, as far as they are written
 * in PL/pgSQL or SQL.  No backslashes, so that every server reads it alike. */
static const char set_by_functions[] =
    "UNION SELECT pg_catalog.lower(m[1]) FROM pg_catalog.pg_proc, "
    "pg_catalog.regexp_matches(prosrc,'(?:set_config[[:space:]]*[(][[:space:]]*''|"
    "[[:<:]]set[[:space:]]+(?:session[[:space:]]+)?)"
    "([a-z_][a-z0-9_$]*[.][a-z0-9_.$]*[a-z0-9_$])','gi') m WHERE "
    "oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid AND "
    "pg_catalog.texticlike(prosrc,'%set%')";

/* Parameters with a dot that no view lists. */
static void put_unlisted(const struct server *server, struct buf *sql)
{
	bool has_calls = server->link.pin.made & LEAK_UNSEEN;
	const char *comma = "";
	struct buf names;

	buf_init(&names, 0);
	kept_put_names(server, &names);
	if (names.len || has_calls) {
		buf_put_text(sql,
		    " UNION ALL SELECT n,v FROM (SELECT n,"
		    "pg_catalog.current_setting(n,true) v FROM (SELECT n FROM "
		    "pg_catalog.unnest(ARRAY[");
		for (size_t at = 0; at < names.len; comma = ",") {
			const char *name = (const char *)names.bytes + at;
			buf_put_text(sql, comma);
			text_put_literal(sql, name);
			at += strlen(name) + 1;
		}
		buf_put_text(sql, "]::pg_catalog.text[]) n ");
		buf_put_text(sql, has_calls ? set_by_functions : "GROUP BY n");
		buf_put_text(sql,
		    ") y WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_settings s WHERE "
		    "pg_catalog.texteq(pg_catalog.lower(s.name),n)) OFFSET 0) y WHERE "
		    "NOT pg_catalog.texteq(v,coalesce(");
		buf_put_text(sql, set_by_alter);
		buf_put_text(sql, ",''))");
	}
	sql->failed |= names.failed;
	buf_done(&names);
}

/* The settings of the session, apart from the parameters that are tracked per client
 * and from those of a transaction; with the two that pg_settings does not show. */
static void put_settings(const struct server *server, struct buf *sql)
{
	const struct vars_schema *schema = server->conn.site->vars;

	buf_printf(sql,
	    "pg_catalog.concat('s',n),CASE WHEN "
	    "pg_catalog.int4le(pg_catalog.octet_length(v),%d)",
	    VALUE_MOST);
	buf_put_text(sql,
	    " THEN pg_catalog.encode(pg_catalog.convert_to(v,"
	    "pg_catalog.getdatabaseencoding()),'hex') END FROM (WITH z AS (SELECT u,"
	    "(SELECT oid FROM pg_catalog.pg_database WHERE "
	    "pg_catalog.nameeq(datname,pg_catalog.current_database())) d,"
	    "(SELECT oid FROM pg_catalog.pg_roles WHERE pg_catalog.texteq("
	    "rolname::pg_catalog.text,u)) r FROM (SELECT ");
	text_put_literal(sql, server->slot.pool->user->name);
	buf_put_text(sql,
	    "::pg_catalog.text u) y) SELECT pg_catalog.lower(name) n,setting v FROM "
	    "pg_catalog.pg_settings WHERE pg_catalog.texteq(source,'session') AND "
	    "pg_catalog.array_position(ARRAY['transaction_isolation',"
	    "'transaction_read_only','transaction_deferrable");
	for (size_t i = 0; i < vars_schema_count(schema); i++) {
		if (!vars_get(&server->vars, i))
			continue;
		buf_put_text(sql, "','");
		text_put_lower(sql, vars_schema_name(schema, i));
	}
	buf_put_text(sql,
	    "']::pg_catalog.text[],pg_catalog.lower(name)) IS NULL UNION ALL "
	    "SELECT n,v FROM (SELECT 'role'::pg_catalog.text n,"
	    "pg_catalog.current_setting('role') v OFFSET 0) y WHERE NOT "
	    "pg_catalog.texteq(v,coalesce(");
	buf_put_text(sql, set_by_alter);
	buf_put_text(sql, ",'none')) UNION ALL SELECT 'session_authorization',"
			  "session_user::pg_catalog.text FROM z WHERE NOT "
			  "pg_catalog.texteq(session_user::pg_catalog.text,u)");
	put_unlisted(server, sql);
	buf_put_text(sql, ") x");
}

static void begin_part(struct buf *sql)
{
	buf_put_text(sql, sql->len ? " UNION ALL SELECT " : "SELECT ");
}

static void put_question(const struct server *server, uint16_t kinds, struct buf *sql)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (kinds & parts[i].kinds) {
			begin_part(sql);
			buf_printf(sql, "'%c',%s%s", parts[i].letter,
			    parts[i].kinds == LEAK_BIT(LISTEN) ? "c" : "NULL",
			    parts[i].from);
		}
	if (kinds & LEAK_SETTINGS) {
		begin_part(sql);
		put_settings(server, sql);
	}
	/* so that equal settings are equal lists */
	buf_put_text(sql, sql->len ? " ORDER BY 1" : "");
}

static void ask(struct server *server, struct buf *sql)
{
	struct link_pin *pin = &server->link.pin;

	pin->found = 0;
	if (!pin->session.max)
		buf_init(&pin->session, 0);
	buf_clear(&pin->session);
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
	pin->may_have_ended = pin->resets_all = pin->has_unknown_name = false;
	/* while settings keep the server, their names are known nowhere else */
	if (!(left & LEAK_BIT(SET)))
		buf_done(&pin->names);
	buf_done(&pin->session);
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
	if (kinds & LEAK_SETTINGS || server->kept)
		kinds |= LEAK_SETTINGS;
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
	if (pin->has_unknown_name)
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

	if (server->has_own_kept || !query || !*query ||
	    !session_state_are_kept(server))
		return false;
	buf_init(&sql, 0);
	if (server->kept && kept_put_back(server, NULL, &sql)) {
		server->link.params.puts_back = true;
		server_query(server, buf_text(&sql));
		mem_free(server->kept);
		server->kept = NULL;
	}
	buf_clear(&sql);
	kept_note_names(server, NULL, query, strlen(query), false);
	server->link.pin.asked = LEAK_SETTINGS;
	server->link.pin.is_of_own = true;
	put_question(server, LEAK_SETTINGS, &sql);
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
static bool note_row(
    struct server *server, struct cursor *c, const uint8_t *row, size_t len)
{
	struct link_pin *pin = &server->link.pin;
	const uint8_t *value;
	size_t value_len;

	if (!row || !len || codec_next_field(c, &value, &value_len) < 0)
		return false;
	if (*row == 'l' && value) {
		if (!value_len || value_len > CHANNEL_MOST)
			return false;
		listen_note_channel(
		    server_client(server), (const char *)value, value_len);
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (*row == (uint8_t)parts[i].letter && len == 1) {
			pin->found |= parts[i].kinds;
			return (pin->asked & parts[i].kinds) != 0;
		}
	if (*row != 's' || !(pin->asked & LEAK_SETTINGS))
		return false;
	/* what cannot be kept keeps the server */
	if (!value ||
	    !kept_settings_add(&pin->session, row + 1, len - 1, value, value_len))
		pin->found |= LEAK_BIT(SET);
	return true;
}

void pin_question_note_row(struct server *server, const struct message *m)
{
	const uint8_t *row;
	size_t count, len;
	struct cursor c;

	cursor_init(&c, message_body(m), message_body_len(m));
	if (codec_read_row_count(&c, &count) < 0 || count != 2 ||
	    codec_next_field(&c, &row, &len) < 0 || !note_row(server, &c, row, len))
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
	if (pin->is_of_own) {
		if (kept_learn_own(server) < 0) {
			server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
			return -1;
		}
		server->has_own_kept = true;
		buf_done(&pin->names);
		buf_done(&pin->session);
		pin->is_of_own = pin->has_unknown_name = false;
		return 0;
	}
	if (listen_settle(client, server, &pin->found)) {
		pin->is_asking = server->link.params.is_applying = true;
		return 1;
	}
	/* while they keep the server they are nowhere else */
	if (pin->found & LEAK_BIT(SET))
		server->is_kept_doubtful = true;
	else if (pin->asked & LEAK_SETTINGS && kept_learn(server, client) < 0) {
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
		return -1;
	}
	decide(server, client, has_ready);
	return 0;
}
