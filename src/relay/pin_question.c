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
	/* a longer value is not sent; in hexadecimal it has twice as many digits */
	VALUE_MOST = KEPT_SETTINGS_MOST / 2,
};

#define LOG_INTERVAL_US (UINT64_C(3600) * 1000000)

/* ---- the question ---- */

/* Everything is named with its schema: a client may have put operators and functions of
 * its own in front of PostgreSQL's, and would hide from the pooler what it leaves to
 * the next client.  Functions stand for the views that call them, and no form of a plan
 * is left to choose: so the question is planned in a fraction of a millisecond, and
 * whatever the client has set of enable_*, its cost is far below jit_above_cost;
 * nothing is sorted, either, as a client may have set enable_sort. */
static const struct part {
	uint16_t kinds;
	char letter;
	const char *from; /* behind SELECT 'letter' */
} parts[] = {
    /* 2615: pg_namespace */
    {LEAK_BIT(TEMP), 't',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_depend WHERE "
	"refclassid OPERATOR(pg_catalog.=) 2615::pg_catalog.oid "
	"AND refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema())"},
    {LEAK_BIT(CURSOR), 'c',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_cursor() WHERE is_holdable)"},
    {LEAK_BIT(LISTEN), 'l', " FROM pg_catalog.pg_listening_channels() c"},
    {LEAK_BIT(PREPARE), 'p',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_prepared_statement() WHERE NOT "
	"pg_catalog.texticlike(name,'PGBOUNCER%'))"},
    {LEAK_BIT(ADVISORY), 'a',
	" WHERE EXISTS (SELECT FROM pg_catalog.pg_lock_status() WHERE "
	"pg_catalog.texteq(locktype,'advisory') AND "
	"pg_catalog.int4eq(pid,pg_catalog.pg_backend_pid()))"},
};

/* Names of parameters that functions of this database set, as far as they are written
 * in PL/pgSQL or SQL.  No backslashes, so that every server reads it alike.  The limit
 * is for the planner, which would expect any number of them. */
static const char set_by_functions[] =
    " UNION ALL (SELECT DISTINCT pg_catalog.lower(m[1]) FROM (SELECT "
    "pg_catalog.regexp_matches(prosrc,'(?:set_config[[:space:]]*[(][[:space:]]*''|"
    "[[:<:]]set[[:space:]]+(?:session[[:space:]]+)?)"
    "([a-z_][a-z0-9_$]*[.][a-z0-9_.$]*[a-z0-9_$])','gi') m FROM pg_catalog.pg_proc "
    "WHERE oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid AND "
    "pg_catalog.texticlike(prosrc,'%set%')) p LIMIT 2000)";

/* A row of a name n and its value v. */
static void put_columns(struct buf *sql, const char *letter)
{
	buf_printf(sql,
	    "pg_catalog.concat(%s,n),CASE WHEN "
	    "pg_catalog.int4le(pg_catalog.octet_length(v),%d)",
	    letter, VALUE_MOST);
	buf_put_text(sql, " THEN pg_catalog.encode(pg_catalog.convert_to(v,"
			  "pg_catalog.getdatabaseencoding()),'hex') END FROM ");
}

/* What ALTER ROLE and ALTER DATABASE set where a session begins, as far as no function
 * tells it; in front of each name its rank, see kept_settings_is_default. */
static void put_defaults(const struct server *server, struct buf *sql)
{
	put_columns(sql, "k");
	buf_put_text(sql,
	    "(SELECT CASE WHEN pg_catalog.oideq(r,0::pg_catalog.oid) THEN CASE WHEN "
	    "pg_catalog.oideq(d,0::pg_catalog.oid) THEN 'd3' ELSE 'd2' END WHEN "
	    "pg_catalog.oideq(d,0::pg_catalog.oid) THEN 'd1' ELSE 'd0' END "
	    "k,pg_catalog.lower("
	    "pg_catalog.split_part(c,'=',1)) n,pg_catalog.substr(c,pg_catalog.int4pl("
	    "pg_catalog.strpos(c,'='),1)) v FROM (SELECT pg_catalog.unnest("
	    "setconfig) c,setdatabase d,setrole r FROM pg_catalog.pg_db_role_setting "
	    "WHERE setdatabase OPERATOR(pg_catalog.=) ANY (ARRAY[0::pg_catalog.oid,"
	    "(SELECT oid FROM pg_catalog.pg_database WHERE datname "
	    "OPERATOR(pg_catalog.=) pg_catalog.current_database())]) AND setrole "
	    "OPERATOR(pg_catalog.=) ANY (ARRAY[0::pg_catalog.oid,"
	    "pg_catalog.to_regrole(pg_catalog.quote_ident(");
	text_put_literal(sql, server->slot.pool->user->name);
	buf_put_text(sql,
	    "))::pg_catalog.oid])) y) x WHERE pg_catalog.texteq(n,'role') OR "
	    "pg_catalog.int4gt(pg_catalog.strpos(n,'.'),0)");
}

/* Parameters with a dot that no function lists. */
static void put_unlisted(
    const struct buf *names, const char *set_elsewhere, struct buf *sql)
{
	const char *comma = "";

	buf_put_text(sql,
	    " UNION ALL SELECT 'u',n,pg_catalog.current_setting(n,true) FROM (SELECT n "
	    "FROM "
	    "pg_catalog.unnest(ARRAY[");
	for (size_t at = 0; at < names->len; comma = ",") {
		const char *name = (const char *)names->bytes + at;
		buf_put_text(sql, comma);
		text_put_literal(sql, name);
		at += strlen(name) + 1;
	}
	buf_put_text(sql, "]::pg_catalog.text[]) n");
	buf_put_text(sql, set_elsewhere);
	buf_put_text(
	    sql, ") y WHERE NOT (n OPERATOR(pg_catalog.=) ANY (SELECT n FROM g))");
}

/* The settings of the session, apart from the parameters that are tracked per client
 * and from those of a transaction; with the two that the function does not show. */
static void put_settings(const struct server *server, struct buf *sql)
{
	const struct vars_schema *schema = server->conn.site->vars;
	bool has_calls = server->link.pin.made & LEAK_UNSEEN;
	struct buf names;

	buf_init(&names, 0);
	kept_put_names(server, &names);
	put_columns(sql, "k");
	buf_put_text(sql,
	    "(WITH g AS (SELECT pg_catalog.lower(name) n,setting v,source FROM "
	    "pg_catalog.pg_show_all_settings()) SELECT 's' k,n,v FROM g WHERE "
	    "pg_catalog.texteq(source,'session') AND "
	    "pg_catalog.array_position(ARRAY['transaction_isolation',"
	    "'transaction_read_only','transaction_deferrable");
	for (size_t i = 0; i < vars_schema_count(schema); i++) {
		if (!vars_get(&server->vars, i))
			continue;
		buf_put_text(sql, "','");
		text_put_lower(sql, vars_schema_name(schema, i));
	}
	buf_put_text(sql,
	    "']::pg_catalog.text[],n) IS NULL UNION ALL SELECT 'u','role',"
	    "pg_catalog.current_setting('role') UNION ALL SELECT 's',"
	    "'session_authorization',session_user::pg_catalog.text WHERE NOT "
	    "pg_catalog.texteq(session_user::pg_catalog.text,");
	text_put_literal(sql, server->slot.pool->user->name);
	buf_put_text(sql, ")");
	if (names.len || has_calls)
		put_unlisted(&names, has_calls ? set_by_functions : "", sql);
	buf_put_text(sql, ") x WHERE v IS NOT NULL");
	sql->failed |= names.failed;
	buf_done(&names);
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
	/* what a session begins with must be known first */
	if (kinds & LEAK_SETTINGS && !server->has_defaults) {
		begin_part(sql);
		put_defaults(server, sql);
	}
	if (kinds & LEAK_SETTINGS) {
		begin_part(sql);
		put_settings(server, sql);
	}
}

static void ask(struct server *server, struct buf *sql)
{
	struct link_pin *pin = &server->link.pin;

	pin->found = 0;
	if (!pin->session.max)
		buf_init(&pin->session, 0);
	buf_clear(&pin->session);
	if (!server->has_defaults)
		buf_clear(&server->defaults);
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
	/* While settings keep the server, their names are known nowhere else, and so
	 * are those that a statement of SQL PREPARE sets with each EXECUTE. */
	if (!(left & (LEAK_BIT(SET) | LEAK_BIT(PREPARE))))
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
	    !statements_are_tracked(client))
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
		server_query_text(server, &sql);
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
	if (!memchr("dsu", *row, 3) || !(pin->asked & LEAK_SETTINGS))
		return false;
	if (*row == 'd') {
		if (value)
			(void)kept_settings_add(
			    &server->defaults, row + 1, len - 1, value, value_len);
		return true;
	}
	if (*row == 'u' && value &&
	    kept_settings_is_default(
		&server->defaults, row + 1, len - 1, value, value_len))
		return true;
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
	if (pin->is_canceled && ++pin->attempts < OWN_ATTEMPTS_MOST) {
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
	server->has_defaults |= (pin->asked & LEAK_SETTINGS) != 0;
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
