/*
 * Finds what matters anywhere in a statement: SELECT INTO, functions that take advisory
 * locks, set_config() with its arguments, and strings that stand for the present time.
 */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "wire/effects_look.h"

/* ---- strings ---- */

/* A longer string is no date. */
enum { CLOCK_MAX = 64 };

static bool is_clock_word(const char *word, size_t len)
{
	static const char *const words[] = {"now", "today", "tomorrow", "yesterday"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i]) == len && strncasecmp(word, words[i], len) == 0)
			return true;
	return false;
}

/* Whether the string contains a word such as 'now', which PostgreSQL turns into a time
 * when it prepares the statement. */
static bool is_clock(const struct sql_token *t)
{
	const char *at = t->at, *end = t->at + t->len, *word;

	if (t->len > CLOCK_MAX)
		return false;
	while (at < end) {
		word = at;
		while (at < end && text_is_letter(*at))
			at++;
		if (at > word && is_clock_word(word, (size_t)(at - word)))
			return true;
		at += at == word;
	}
	return false;
}

/* ---- set_config(name, value, is_local) ---- */

static void leave(struct effects_look *l, uint16_t kind)
{
	l->effects.leaves |= kind;
	l->effects.leaves_first |= kind;
}

static void leave_config(struct effects_look *l, bool is_defined)
{
	leave(l, LEAK_BIT(CONFIG));
	l->effects.leaves |= is_defined ? 0 : LEAK_PLACEHOLDER;
}

static void begin_config(struct effects_look *l)
{
	if (l->call_count == EFFECTS_NESTED_MAX) {
		l->effects.is_unusual = true;
		leave_config(l, false);
		return;
	}
	l->calls[l->call_count++] =
	    (struct config_call){.depth = l->depth, .is_fresh = true};
}

/* Stops following the innermost call.  If it may have left something behind, that is
 * noted. */
static void end_config(struct effects_look *l, bool is_harmless)
{
	l->call_count--;
	if (!is_harmless)
		leave_config(l, false);
}

/* Notes that the call sets or resets its parameter, for the session if not is_local. */
static void note_config(
    struct effects_look *l, const struct config_call *call, bool is_local)
{
	struct reset_effects more = {0};

	if (!is_local && !call->bit)
		leave_config(l, call->is_defined);
	l->effects.configs |= is_local ? 0 : call->bit;
	if (call->is_null)
		more.hidden = is_local ? 0 : call->bit;
	else
		more.set = call->bit;
	effects_add_resets(&l->effects.resets, &more);
}

/* Reads the first token of an argument. */
static void read_argument(struct effects_look *l, struct config_call *call)
{
	const struct sql_token *t = &l->token;
	struct config_call ended;

	call->is_fresh = false;
	switch (call->argument) {
	case 0:
		if (t->kind == SQL_STRING && !t->is_open)
			call->bit = effects_look_parameter(l, t->at, t->len);
		/* a parameter with a dot is of an extension or the application */
		call->is_defined = t->kind == SQL_STRING && !memchr(t->at, '.', t->len);
		if (t->kind != SQL_STRING || call->is_defined)
			l->effects.is_unusual = true;
		if (t->kind == SQL_STRING && vars_is_silently_read(t->at, t->len))
			l->effects.leaves |= LEAK_READING;
		break;
	case 1:
		call->is_null = sql_token_is(t, "null");
		break;
	default:
		ended = *call;
		end_config(l, true);
		note_config(l, &ended, sql_token_is(t, "true"));
		break;
	}
}

/* Follows the parentheses and commas of calls.  Outside of a call nothing is
 * counted. */
static void observe_call(struct effects_look *l)
{
	struct config_call *call = &l->calls[l->call_count - 1];
	const struct sql_token *t = &l->token;
	char mark = t->kind == SQL_MARK ? t->mark : '\0';

	if (mark == ')' || mark == ']') {
		if (l->depth == call->depth)
			end_config(l, false);
		l->depth -= l->depth > 0;
	} else if (mark == ',' && l->depth == call->depth) {
		call->argument++;
		call->is_fresh = true;
	} else if (call->is_fresh) {
		read_argument(l, call);
	}
	if (mark == '(' || mark == '[')
		l->depth++;
}

/* ---- words ---- */

/* The kind of session state that a call of this function leaves behind, or 0.  Names
 * with "xact" are functions whose locks end with the transaction. */
static uint16_t function_kind(const struct sql_token *t)
{
	static const char *const locks[] = {"pg_advisory_lock",
	    "pg_advisory_lock_shared", "pg_try_advisory_lock",
	    "pg_try_advisory_lock_shared"};

	if (sql_token_is(t, "set_config"))
		return LEAK_BIT(CONFIG);
	for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++)
		if (sql_token_is(t, locks[i]))
			return LEAK_BIT(ADVISORY);
	return 0;
}

/* Notices SELECT ..  INTO, which makes a table, and [LOCAL | GLOBAL] TEMP behind it.
 * Behind INSERT and MERGE stands a table that is there. */
static void observe_into(struct effects_look *l)
{
	const struct sql_token *t = &l->token;

	if (l->is_into && (sql_token_is(t, "local") || sql_token_is(t, "global")))
		return;
	if (l->is_into && (sql_token_is(t, "temp") || sql_token_is(t, "temporary"))) {
		leave(l, LEAK_BIT(TEMP));
		l->effects.makes_temp = l->effects.is_unusual = true;
	} else if (l->is_into) {
		l->effects.changes_schema = true;
	}
	l->is_into = sql_token_is(t, "into") && !sql_token_is(&l->before, "insert") &&
		     !sql_token_is(&l->before, "merge");
}

static void observe_word(struct effects_look *l)
{
	const struct sql_token *t = &l->token;
	bool may_be_function = t->len >= 10 && memchr("sSpP", *t->at, 4);

	if (l->is_into || t->len == 4)
		observe_into(l);
	l->pending = may_be_function ? function_kind(t) : 0;
}

/* ---- a token ---- */

bool effects_inner_is_busy(const struct effects_look *l)
{
	return l->call_count > 0 || l->pending || l->is_into;
}

/* Notices the "(" behind the name of a function: it is called. */
static void observe_open(struct effects_look *l)
{
	uint16_t kind = l->pending;

	l->pending = 0;
	if (l->call_count > 0)
		observe_call(l);
	else
		l->depth++;
	if (kind & LEAK_BIT(CONFIG))
		begin_config(l);
	else if (kind)
		leave(l, kind);
}

void effects_inner_observe(struct effects_look *l)
{
	const struct sql_token *t = &l->token;

	if (l->ask->has_clock && t->kind == SQL_STRING && is_clock(t))
		l->effects.reads_clock = true;
	if (l->pending && sql_token_is_mark(t, '(')) {
		observe_open(l);
		return;
	}
	l->pending = 0;
	if (t->kind == SQL_WORD) {
		observe_word(l);
	} else {
		l->effects.changes_schema |= l->is_into && t->kind == SQL_NAME;
		l->is_into = false;
	}
	if (l->call_count > 0)
		observe_call(l);
}

void effects_inner_next(struct effects_look *l)
{
	if (effects_look_is_end(l))
		return;
	l->before = l->token;
	sql_scan_next(&l->scan, &l->token);
	effects_inner_observe(l);
}

void effects_inner_end(struct effects_look *l)
{
	while (l->call_count > 0)
		end_config(l, false);
	l->depth = 0;
	l->pending = 0;
	l->is_into = false;
}
