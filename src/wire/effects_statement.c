/*
 * Knows the first words of statements: SET, RESET, CREATE TEMP, DECLARE, PREPARE and
 * others that change more than tables.
 */
#include <string.h>

#include "wire/effects_look.h"

static bool is_word(const struct effects_look *l, const char *word)
{
	return sql_token_is(&l->token, word);
}

static void leave(struct effects_look *l, uint16_t kinds)
{
	l->effects.leaves |= kinds;
	if (l->statements == 0)
		l->effects.leaves_first |= kinds & LEAK_KINDS;
}

/* The statement may make what only the server can tell. */
static void leave_unseen(struct effects_look *l)
{
	if (!l->ask->has_calls)
		return;
	leave(l, LEAK_UNSEEN);
	l->effects.may_notify = true;
}

/* ---- SET ---- */

/* The parameter that a SET changes. */
struct set_target {
	uint64_t bit; /* bit of a tracked parameter, or 0 */
	/* kind of session state; ROLE and SESSION AUTHORIZATION have their own; with
	 * LEAK_PLACEHOLDER if the name has a dot */
	uint16_t kind;
	bool is_zone, is_names;
};

/* Reads a name, which may be qualified (a.b).  The current token is its first one;
 * afterwards it is the first one behind the name.  Returns the parameter's bit. */
static uint64_t take_name(struct effects_look *l)
{
	const char *at = l->token.at;
	size_t len = l->token.len;

	if (effects_look_is_end(l))
		return 0;
	effects_inner_next(l);
	while (sql_token_is_mark(&l->token, '.')) {
		effects_inner_next(l);
		if (!effects_look_is_end(l))
			len = (size_t)(l->token.at + l->token.len - at);
		effects_inner_next(l);
	}
	return effects_look_parameter(l, at, len);
}

static uint64_t parameter(const struct effects_look *l, const char *name)
{
	return effects_look_parameter(l, name, strlen(name));
}

static bool is_name(const struct effects_look *l, const char *name)
{
	struct sql_token t = l->token;

	/* a quoted name is a name like any other */
	if (t.kind == SQL_NAME)
		t.kind = SQL_WORD;
	return sql_token_is(&t, name);
}

/* Reads the target of a SET; the token is the first one behind SET [SESSION |
 * LOCAL]. */
static struct set_target take_target(struct effects_look *l)
{
	struct set_target target = {.kind = LEAK_BIT(SET)};

	if (is_name(l, "role"))
		target.kind = LEAK_BIT(ROLE);
	else if (is_name(l, "session_authorization"))
		target.kind = LEAK_BIT(AUTHORIZATION);
	target.is_zone = is_word(l, "time");
	target.is_names = is_word(l, "names");
	if (target.is_zone || target.is_names || is_word(l, "schema")) {
		target.bit = parameter(l, target.is_zone    ? "TimeZone"
					  : target.is_names ? "client_encoding"
							    : "search_path");
		effects_inner_next(l);
		if (target.is_zone)
			effects_inner_next(l); /* skips ZONE */
	} else {
		const char *at = l->token.at;
		target.bit = take_name(l);
		/* behind U stands &"..", which may have a dot */
		if (memchr(at, '.', (size_t)(l->token.from - at)) ||
		    sql_token_is_mark(&l->token, '&'))
			target.kind |= LEAK_PLACEHOLDER;
	}
	return target;
}

/* Notices TO DEFAULT; the token is the first one behind the name. */
static bool take_default(struct effects_look *l, const struct set_target *target)
{
	if (sql_token_is_mark(&l->token, '=') || is_word(l, "to"))
		effects_inner_next(l);
	if (effects_look_is_end(l))
		return target->is_names;
	return is_word(l, "default") || (target->is_zone && is_word(l, "local")) ||
	       (target->kind == LEAK_BIT(ROLE) && is_word(l, "none"));
}

static void note_set(struct effects_look *l, const struct set_target *target,
    bool is_local, bool is_default)
{
	struct reset_effects more = {.has_default = is_default};

	if (!is_default)
		more.set = target->bit;
	else if (is_local)
		more.local = target->bit;
	else
		more.session = target->bit;
	/* this statement overrides earlier ones of the same text */
	l->effects.resets.session &= ~target->bit;
	l->effects.resets.local &= ~target->bit;
	effects_add_resets(&l->effects.resets, &more);
	if (is_local || is_default) {
		leave(l, LEAK_HARMLESS_SET);
	} else if (target->bit) {
		l->effects.sets |= target->bit;
		if (l->statements == 0)
			l->effects.sets_first |= target->bit;
	} else {
		leave(l, target->kind);
	}
}

static void set_parameter(struct effects_look *l, bool is_local)
{
	/* Parse does not depend on these, nor on those with a dot, of extensions */
	static const char *const harmless[] = {"statement_timeout", "lock_timeout",
	    "transaction_timeout", "idle_in_transaction_session_timeout",
	    "application_name", "work_mem", "synchronous_commit"};
	const struct sql_token *t = &l->token;
	bool is_usual = t->kind != SQL_END && t->to < l->scan.end && *t->to == '.';
	struct set_target target;

	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		is_usual = is_usual || sql_token_is(t, harmless[i]);
	l->effects.is_unusual |= !is_usual;
	if (vars_is_silently_read(t->at, t->len))
		l->effects.leaves |= LEAK_READING;
	target = take_target(l);

	note_set(l, &target, is_local, take_default(l, &target));
}

/* Reads the rest of SET SESSION ... */
static void set_session(struct effects_look *l)
{
	const struct set_target target = {.kind = LEAK_BIT(AUTHORIZATION)};

	effects_inner_next(l);
	if (is_word(l, "characteristics")) {
		leave(l, LEAK_BIT(SET));
	} else if (is_word(l, "authorization")) {
		l->effects.is_unusual = true;
		l->effects.leaves |= LEAK_READING; /* it sets the role, too */
		effects_inner_next(l);
		note_set(l, &target, false, take_default(l, &target));
	} else {
		set_parameter(l, false);
	}
}

static void set_statement(struct effects_look *l)
{
	effects_inner_next(l);
	if (is_word(l, "session")) {
		set_session(l);
	} else if (is_word(l, "transaction")) {
		leave(l, LEAK_HARMLESS_SET);
	} else if (is_word(l, "local")) {
		effects_inner_next(l);
		set_parameter(l, true);
	} else if (!is_word(l, "constraints")) {
		set_parameter(l, false);
	}
}

/* ---- RESET ---- */

static void reset_statement(struct effects_look *l)
{
	struct reset_effects more = {.has_reset = true};

	effects_inner_next(l);
	if (is_word(l, "all"))
		more.session = UINT64_MAX;
	else if (is_word(l, "time")) /* RESET TIME ZONE */
		more.session = parameter(l, "TimeZone");
	else
		more.session = take_name(l);
	effects_add_resets(&l->effects.resets, &more);
}

/* ---- EXECUTE, which may stand within another statement ---- */

/* Whether this token can follow the statement's name in such a command. */
static bool may_follow(const struct effects_look *l, enum command_kind kind)
{
	bool is_open = sql_token_is_mark(&l->token, '(');

	switch (kind) {
	case COMMAND_PREPARE:
		return is_open || is_word(l, "as");
	case COMMAND_EXECUTE: /* CREATE TABLE .. AS EXECUTE .. WITH NO DATA */
		return is_open || is_word(l, "with") || effects_look_is_end(l);
	default:
		return effects_look_is_end(l);
	}
}

static bool may_be_name(const struct sql_token *t)
{
	return (t->kind == SQL_WORD && *t->at != '$') ||
	       (t->kind == SQL_NAME && t->len > 0 && !t->is_open);
}

/* Reads the rest of a PREPARE, EXECUTE or DEALLOCATE; the token is the statement's
 * name.  Only the first statement of a text counts, and only if no other one follows;
 * a DEALLOCATE may stand anywhere, as psqlODBC puts it between SAVEPOINT and RELEASE.
 */
static void take_command(
    struct effects_look *l, enum command_kind kind, const struct sql_token *name)
{
	struct command_span span = {.kind = kind};

	if (!may_be_name(name) || !may_follow(l, kind) ||
	    !(l->effects.is_command || kind == COMMAND_DEALLOCATE))
		return;
	span.from = (uint32_t)(name->from - l->text);
	span.to = (uint32_t)(name->to - l->text);
	while (!effects_look_is_end(l))
		effects_inner_next(l);
	span.end = (uint32_t)(l->token.from - l->text);
	l->effects.command = span;
}

static void begin_command(struct effects_look *l)
{
	l->effects.is_command = l->statements == 0 && !l->has_empty;
	l->commands++;
	effects_inner_next(l);
}

/* The token is EXECUTE. */
static void take_execute(struct effects_look *l)
{
	struct sql_token name;

	begin_command(l);
	name = l->token;
	effects_inner_next(l);
	take_command(l, COMMAND_EXECUTE, &name);
}

/* Reads the rest of a CREATE TABLE.  Returns whether ON COMMIT DROP stands there. */
static bool take_table(struct effects_look *l)
{
	static const char *const drop[] = {"on", "commit", "drop", NULL};
	size_t found = 0;

	while (!effects_look_is_end(l)) {
		bool is_as = is_word(l, "as");
		if (drop[found])
			found =
			    is_word(l, drop[found]) ? found + 1 : is_word(l, drop[0]);
		effects_inner_next(l);
		if (is_as && is_word(l, "execute")) {
			take_execute(l);
			break;
		}
	}
	return !drop[found];
}

static void execute_statement(struct effects_look *l)
{
	leave_unseen(l);
	take_execute(l);
}

/* ---- statements that leave something ---- */

static void listen_statement(struct effects_look *l)
{
	leave(l, LEAK_BIT(LISTEN));
}

static void load_statement(struct effects_look *l)
{
	leave(l, LEAK_BIT(LOAD));
}

static void unlisten_statement(struct effects_look *l)
{
	effects_inner_next(l);
	if (sql_token_is_mark(&l->token, '*'))
		leave(l, LEAK_UNLISTEN_ALL);
	else if (l->ask->has_calls)
		leave(l, LEAK_UNSEEN);
}

/* Whether what is created, altered or dropped has no influence on the meaning of other
 * texts.  The token is the first one behind the verb. */
static bool has_no_dependents(const struct sql_token *t)
{
	static const char *const words[] = {"index", "unique", "role", "user", "group",
	    "database", "tablespace", "publication", "subscription", "statistics",
	    "trigger", "policy", "event", "system", "default"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (sql_token_is(t, words[i]))
			return true;
	return false;
}

/* Notes the object behind CREATE, ALTER or DROP; the token is the first one behind the
 * verb and OR REPLACE. */
static void note_object(struct effects_look *l, bool is_drop)
{
	l->effects.vacates |= l->statements == 0 && is_word(l, "database");
	if (is_word(l, "temp") || is_word(l, "temporary"))
		l->effects.makes_temp = true;
	else if (is_drop && is_word(l, "table"))
		l->effects.drops_table = true;
	else if (!has_no_dependents(&l->token))
		l->effects.changes_schema = true;
}

static void create_statement(struct effects_look *l)
{
	leave_unseen(l);
	do
		effects_inner_next(l);
	while (is_word(l, "or") || is_word(l, "replace") || is_word(l, "global") ||
	       is_word(l, "local"));
	note_object(l, false);
	bool is_temp = is_word(l, "temp") || is_word(l, "temporary");
	bool is_table = is_temp || is_word(l, "table") || is_word(l, "unlogged");
	bool is_dropped = is_table && take_table(l);
	if (is_temp && !is_dropped)
		leave(l, LEAK_BIT(TEMP));
}

static void explain_statement(struct effects_look *l)
{
	leave_unseen(l);
	effects_inner_next(l);
	if (sql_token_is_mark(&l->token, '(')) {
		while (!effects_look_is_end(l) && !sql_token_is_mark(&l->token, ')'))
			effects_inner_next(l);
		effects_inner_next(l);
	}
	while (is_word(l, "analyze") || is_word(l, "analyse") || is_word(l, "verbose"))
		effects_inner_next(l);
	if (is_word(l, "execute")) {
		take_execute(l);
	} else if (is_word(l, "create")) {
		l->effects.is_unusual = true; /* with ANALYZE it makes the table */
		create_statement(l);
	}
}

static void alter_statement(struct effects_look *l)
{
	effects_inner_next(l);
	note_object(l, false);
}

static void drop_statement(struct effects_look *l)
{
	effects_inner_next(l);
	note_object(l, true);
}

bool effects_is_schema_tag(const char *tag, size_t len, bool is_explained)
{
	static const char *const verbs[] = {"CREATE ", "ALTER ", "DROP "};
	/* Known by their tags alone.  Rights count because PostgreSQL looks in Parse
	 * whether a schema may be used. */
	static const char *const others[] = {"GRANT", "GRANT ROLE", "REVOKE",
	    "REVOKE ROLE", "REASSIGN OWNED", "IMPORT FOREIGN SCHEMA"};

	/* most tags begin with other letters */
	if (len < 5 || !memchr("ACDGIR", *tag, 6))
		return false;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strlen(others[i]) == len && memcmp(others[i], tag, len) == 0)
			return true;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]) && !is_explained; i++) {
		size_t size = strlen(verbs[i]);
		struct sql_token object;
		struct sql_scan s;
		if (len <= size || memcmp(tag, verbs[i], size) != 0)
			continue;
		sql_scan_init(&s, tag + size, len - size, false);
		sql_scan_next(&s, &object);
		return !has_no_dependents(&object);
	}
	return false;
}

/* Whether these words follow each other in the statement, before the word `stop`. */
static bool has_words(
    struct effects_look *l, const char *const words[], const char *stop)
{
	size_t found = 0;

	while (!effects_look_is_end(l) && !is_word(l, stop)) {
		if (is_word(l, words[found]))
			found++;
		else
			found = is_word(l, words[0]);
		if (!words[found])
			return true;
		effects_inner_next(l);
	}
	return false;
}

static void declare_statement(struct effects_look *l)
{
	static const char *const with_hold[] = {"with", "hold", NULL};

	effects_inner_next(l);
	effects_inner_next(l); /* skip the cursor's name */
	if (has_words(l, with_hold, "for"))
		leave(l, LEAK_BIT(CURSOR));
}

/* ---- PREPARE, DEALLOCATE ---- */

static void prepare_statement(struct effects_look *l)
{
	struct sql_token name;

	begin_command(l);
	name = l->token;
	if (!is_word(l, "transaction"))
		leave(l, LEAK_BIT(PREPARE));
	effects_inner_next(l);
	take_command(l, COMMAND_PREPARE, &name);
}

static void note_forgetting(struct effects_look *l)
{
	l->effects.may_forget = true;
	l->effects.forgets |= l->statements == 0;
}

static void deallocate_statement(struct effects_look *l)
{
	struct sql_token name;

	note_forgetting(l);
	begin_command(l);
	name = l->token;
	effects_inner_next(l);
	/* the name may itself be "prepare" */
	if (sql_token_is(&name, "prepare") && !effects_look_is_end(l)) {
		name = l->token;
		effects_inner_next(l);
	}
	take_command(l,
	    sql_token_is(&name, "all") ? COMMAND_DEALLOCATE_ALL : COMMAND_DEALLOCATE,
	    &name);
}

/* ---- DO ---- */

/* Scans the body of a DO, or a string in it that the body may execute, for RESET, SET,
 * DISCARD and DEALLOCATE anywhere. */
static void look_at_body(struct effects_look *outer, bool is_string)
{
	struct effects_look l = {.ask = outer->ask, .statements = 1};
	struct reset_effects more;

	sql_scan_init(&l.scan, outer->token.at, outer->token.len, false);
	sql_scan_next(&l.scan, &l.token);
	while (l.token.kind != SQL_END) {
		if (l.token.kind == SQL_STRING && !is_string) {
			look_at_body(&l, true);
		} else if (is_word(&l, "deallocate") || is_word(&l, "discard")) {
			l.effects.hides_forgetting = true;
		} else if (is_word(&l, "create")) {
			create_statement(&l);
			continue;
		} else if (is_word(&l, "alter") || is_word(&l, "drop")) {
			bool is_drop = is_word(&l, "drop");
			sql_scan_next(&l.scan, &l.token);
			note_object(&l, is_drop);
			continue;
		} else if (is_word(&l, "reset")) {
			reset_statement(&l);
		} else if (is_word(&l, "set")) {
			set_statement(&l);
		} else if (is_word(&l, "set_config")) {
			l.effects.leaves |= LEAK_READING;
		}
		/* go on, although the token may be the end of a statement */
		sql_scan_next(&l.scan, &l.token);
	}
	more = l.effects.resets;
	more = (struct reset_effects){
	    .hidden = more.session | more.local | more.hidden, .set = more.set};
	effects_add_resets(&outer->effects.resets, &more);
	outer->effects.leaves |= l.effects.leaves & (LEAK_PLACEHOLDER | LEAK_READING);
	outer->effects.hides_forgetting |= l.effects.hides_forgetting;
	outer->effects.changes_schema |= l.effects.changes_schema;
	outer->effects.makes_temp |= l.effects.makes_temp;
	outer->effects.drops_table |= l.effects.drops_table;
}

static void do_statement(struct effects_look *l)
{
	leave_unseen(l);
	do {
		effects_inner_next(l);
		if (l->token.kind == SQL_STRING)
			look_at_body(l, false);
	} while (!effects_look_is_end(l));
	l->effects.may_forget |= l->effects.hides_forgetting;
}

/* ---- all of them ---- */

static const struct verb {
	const char *word;
	void (*look)(struct effects_look *l);
	bool is_unusual; /* see struct sql_effects */
} verbs[] = {
    {"set", set_statement, false},
    {"reset", reset_statement, true},
    {"create", create_statement, true},
    {"alter", alter_statement, true},
    {"drop", drop_statement, true},
    {"prepare", prepare_statement, true},
    {"execute", execute_statement, true},
    {"explain", explain_statement, false},
    {"deallocate", deallocate_statement, true},
    {"discard", note_forgetting, true},
    {"declare", declare_statement, false},
    {"do", do_statement, true},
    {"listen", listen_statement, false},
    {"unlisten", unlisten_statement, false},
    {"load", load_statement, true},
};

/* The lengths of these words by first letter: a quick test, because most statements
 * begin with other words. */
static const uint32_t lengths[32] = {
    ['s' & 31] = 1U << 3,
    ['r' & 31] = 1U << 5,
    ['c' & 31] = 1U << 6,
    ['p' & 31] = 1U << 7,
    ['e' & 31] = 1U << 7,
    ['a' & 31] = 1U << 5,
    ['d' & 31] = 1U << 2 | 1U << 4 | 1U << 7 | 1U << 10,
    ['l' & 31] = 1U << 4 | 1U << 6,
    ['u' & 31] = 1U << 8,
};

bool effects_statement_is_known(const struct sql_token *t)
{
	return t->kind == SQL_WORD && t->len <= 10 &&
	       lengths[*t->at & 31] >> t->len & 1;
}

void effects_statement(struct effects_look *l)
{
	const struct sql_token *t = &l->token;

	if (!effects_statement_is_known(t))
		return;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (sql_token_is(t, verbs[i].word)) {
			l->effects.is_unusual |= verbs[i].is_unusual;
			verbs[i].look(l);
			return;
		}
}
