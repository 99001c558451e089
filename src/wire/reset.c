/*
 * RESET and SET .. TO DEFAULT, found in a text.  What the defaults are, and for whom,
 * is not known here.
 */
#include "wire/reset.h"

#include <string.h>

#include "wire/words.h"

/* Statements of one text that are looked at: there is no end to their number. */
enum { STATEMENTS_MAX = 100, NAME_MAX_LEN = 63 };

/* The parameter of this name; none when it is not tracked. */
static uint64_t bit_of(const struct vars_schema *schema, struct word name)
{
	char text[NAME_MAX_LEN + 1];
	int i;

	if (name.len > NAME_MAX_LEN)
		return 0;
	memcpy(text, name.at, name.len);
	text[name.len] = '\0';
	i = vars_schema_find(schema, text);
	return i >= 0 && i < RESET_NOTED ? UINT64_C(1) << i : 0;
}

/* Behind the name of a SET: is the value DEFAULT (or, for some, LOCAL or nothing)? */
static bool is_default(struct words t, bool is_local_too, bool is_nothing_too)
{
	struct word w = words_next(&t);

	if (words_is(w, "=") || words_is(w, "to"))
		w = words_next(&t);
	if (w.len == 0 || words_is(w, ";"))
		return is_nothing_too;
	return words_is(w, "default") || (is_local_too && words_is(w, "local"));
}

static void look_set(
    struct words t, const struct vars_schema *schema, struct reset_look *look)
{
	struct word name = words_next(&t);
	uint64_t *bits = &look->session, bit;
	bool is_zone, is_names;

	if (words_is(name, "session") || words_is(name, "local")) {
		if (words_is(name, "local"))
			bits = &look->local;
		name = words_next(&t);
	}
	is_zone = words_is(name, "time");
	is_names = words_is(name, "names");
	if (is_zone)
		words_next(&t); /* ZONE */
	bit = is_zone    ? UINT64_C(1) << VAR_TIMEZONE
	      : is_names ? UINT64_C(1) << VAR_CLIENT_ENCODING
			 : bit_of(schema, name);
	look->session &= ~bit;
	look->local &= ~bit;
	look->set &= ~bit;
	if (is_default(t, is_zone, is_names)) {
		look->has_default = true;
		*bits |= bit;
	} else {
		look->set |= bit;
	}
}

static void look_reset(
    struct words t, const struct vars_schema *schema, struct reset_look *look)
{
	struct word name = words_next(&t);

	uint64_t bits;

	if (words_is(name, "all"))
		bits = UINT64_MAX;
	else if (words_is(name, "time")) /* RESET TIME ZONE */
		bits = UINT64_C(1) << VAR_TIMEZONE;
	else
		bits = bit_of(schema, name);
	look->has_reset = true;
	look->session |= bits;
	look->set &= ~bits;
}

/* t stands at the first word of a statement. */
static void look_statement(
    struct words t, const struct vars_schema *schema, struct reset_look *look)
{
	struct word w;

	if (t.at == t.end || !strchr("sSrR", *t.at))
		return;
	w = words_next(&t);
	if (words_is(w, "set"))
		look_set(t, schema, look);
	else if (words_is(w, "reset"))
		look_reset(t, schema, look);
}

struct reset_look reset_of_text(
    const char *text, size_t len, const struct vars_schema *schema)
{
	struct words t = {text, text + len};
	struct reset_look look = {0};

	/* a Query's text ends at its NUL */
	if (len && text[len - 1] == '\0')
		t.end--;
	for (int i = 0; i < STATEMENTS_MAX && t.at; i++) {
		words_skip_blanks(&t, true);
		look_statement(t, schema, &look);
		t.at = memchr(t.at, ';', (size_t)(t.end - t.at));
	}
	return look;
}
