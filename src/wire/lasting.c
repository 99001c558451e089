/*
 * One walk over the tokens.  It runs once for each text that comes again, not for each
 * message.
 */
#include "wire/lasting.h"

#include <string.h>

#include "wire/effects.h"
#include "wire/sql_scan.h"

/* NAMEDATALEN - 1; a letter beyond ASCII may have up to four bytes on the server. */
enum { NAME_MOST = 63, WIDE_NAME_MOST = NAME_MOST / 4 };

static bool is_one_of(
    const struct sql_token *t, const char *const words[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (sql_token_is(t, words[i]))
			return true;
	return false;
}

/* before: the token in front of t. */
static bool is_lasting(const struct sql_token *t, const struct sql_token *before)
{
	static const char *const references[] = {"regproc", "regprocedure", "regoper",
	    "regoperator", "regtype", "regrole", "regnamespace", "regconfig",
	    "regdictionary", "regcollation"};
	enum { COUNT = sizeof(references) / sizeof(references[0]) };
	struct sql_token name = *t;
	size_t wide = 0;

	switch (t->kind) {
	case SQL_STRING:
		return before->kind != SQL_STRING && !memchr(t->at, '\\', t->len);
	case SQL_NAME:
		name.kind = SQL_WORD;
		/* fall through */
	case SQL_WORD:
		/* SELECT INTO makes a table */
		if (sql_token_is(t, "into") && !sql_token_is(before, "insert") &&
		    !sql_token_is(before, "merge"))
			return false;
		while (wide < t->len && !(t->at[wide] & 0x80))
			wide++;
		return t->len <= (wide < t->len ? WIDE_NAME_MOST : NAME_MOST) &&
		       !is_one_of(&name, references, COUNT);
	default:
		return true;
	}
}

bool lasting_is_text(const char *text, size_t len)
{
	static const char *const planned[] = {
	    "select", "insert", "update", "delete", "merge", "values", "table", "with"};
	const struct effects_ask ask = {.has_leaves = true, .has_clock = true};
	struct sql_token t, before = {.kind = SQL_END};
	struct sql_effects effects;
	struct sql_scan s;

	sql_scan_init(&s, text, len, false);
	sql_scan_next(&s, &t);
	if (!is_one_of(&t, planned, sizeof(planned) / sizeof(planned[0])))
		return false;
	for (; t.kind != SQL_END; sql_scan_next(&s, &t)) {
		if (!is_lasting(&t, &before))
			return false;
		before = t;
	}
	effects = effects_of_text(text, len, &ask);
	return effects_is_nothing(&effects);
}
