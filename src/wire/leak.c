/*
 * First words of statements and CommandComplete tags -> kinds of session state left
 * behind.  Who counts them, cleans or refuses is not known here.
 */
#include "wire/leak.h"

#include <string.h>
#include <strings.h>

#include "wire/words.h"

#define ANY NULL

static const struct {
	const char *name, *tag, *hint;
} rows[] = {
#define LEAK(name, shown, tag, hint) [LEAK_##name] = {shown, tag, hint},
#include "wire/leaks.def"
#undef LEAK
};

enum { SET_FAMILY = LEAK_BIT(SET) | LEAK_BIT(ROLE) | LEAK_BIT(AUTHORIZATION) };
enum { NAME_MAX_LEN = 63 };
/* Statements of one text that are looked at: there is no end to their number. */
enum { STATEMENTS_MAX = 100 };

const char *leak_name(enum leak_kind kind)
{
	return rows[kind].name;
}

const char *leak_hint(enum leak_kind kind)
{
	return rows[kind].hint;
}

/* ---- SET ---- */

static bool is_tracked(const struct vars *tracked, struct word name)
{
	char text[NAME_MAX_LEN + 1];
	int i;

	if (!tracked || name.len > NAME_MAX_LEN)
		return false;
	memcpy(text, name.at, name.len);
	text[name.len] = '\0';
	i = vars_schema_find(vars_schema(tracked), text);
	return i >= 0 && vars_get(tracked, (size_t)i);
}

/* The value behind `=`, TO or nothing: is it this word, or DEFAULT? */
static bool is_set_to(struct words t, const char *word)
{
	struct word w = words_next(&t);

	if (words_is(w, "=") || words_is(w, "to"))
		w = words_next(&t);
	return words_is(w, "default") || words_is(w, word);
}

static uint16_t unless_harmless(bool is_harmless, uint16_t bit)
{
	return is_harmless ? LEAK_HARMLESS_SET : bit;
}

static uint16_t set_of_parameter(
    struct words t, struct word name, const struct vars *tracked)
{
	static const struct word timezone = {"TimeZone", 8};
	static const struct word encoding = {"client_encoding", 15};
	static const struct word path = {"search_path", 11};

	if (words_is(name, "role"))
		return unless_harmless(is_set_to(t, "none"), LEAK_BIT(ROLE));
	if (words_is(name, "session_authorization"))
		return unless_harmless(
		    is_set_to(t, "default"), LEAK_BIT(AUTHORIZATION));
	if (words_is(name, "time")) {
		words_next(&t); /* ZONE */
		name = timezone;
	} else if (words_is(name, "names")) {
		name = encoding;
	} else if (words_is(name, "schema")) {
		name = path;
	}
	return unless_harmless(
	    is_tracked(tracked, name) || is_set_to(t, "default"), LEAK_BIT(SET));
}

static uint16_t set_of(struct words t, const struct vars *tracked)
{
	struct word w = words_next(&t);

	if (words_is(w, "local") || words_is(w, "transaction"))
		return LEAK_HARMLESS_SET;
	if (words_is(w, "constraints"))
		return 0;
	if (!words_is(w, "session"))
		return set_of_parameter(t, w, tracked);
	w = words_next(&t);
	if (words_is(w, "authorization"))
		return unless_harmless(
		    is_set_to(t, "default"), LEAK_BIT(AUTHORIZATION));
	if (words_is(w, "characteristics"))
		return LEAK_BIT(SET);
	return set_of_parameter(t, w, tracked);
}

/* ---- other statements ---- */

/* Do these words stand one after the other before `stop` (NULL: the statement's end)?
 */
static bool has_words(struct words t, const char *const words[], const char *stop)
{
	size_t found = 0;
	struct word w;

	while ((w = words_next(&t)).len && !words_is(w, ";") &&
	       !(stop && words_is(w, stop))) {
		if (!words_is(w, words[found]))
			found = words_is(w, words[0]);
		else
			found++;
		if (!words[found])
			return true;
	}
	return false;
}

static uint16_t create_of(struct words t)
{
	static const char *const on_commit_drop[] = {"on", "commit", "drop", NULL};
	struct word w = words_next(&t);

	while (words_is(w, "or") || words_is(w, "replace") || words_is(w, "global") ||
	       words_is(w, "local"))
		w = words_next(&t);
	if (!words_is(w, "temp") && !words_is(w, "temporary"))
		return 0;
	return has_words(t, on_commit_drop, NULL) ? 0 : LEAK_BIT(TEMP);
}

static uint16_t declare_of(struct words t)
{
	static const char *const with_hold[] = {"with", "hold", NULL};

	words_next(&t); /* its name */
	return has_words(t, with_hold, "for") ? LEAK_BIT(CURSOR) : 0;
}

/* t stands at the first word of a statement. */
static uint16_t statement_of(struct words t, const struct vars *tracked)
{
	struct word w;

	if (t.at == t.end || !strchr("sSlLdDpPcCuU", *t.at))
		return 0;
	w = words_next(&t);
	if (words_is(w, "set"))
		return set_of(t, tracked);
	if (words_is(w, "listen"))
		return LEAK_BIT(LISTEN);
	if (words_is(w, "load"))
		return LEAK_BIT(LOAD);
	if (words_is(w, "declare"))
		return declare_of(t);
	if (words_is(w, "prepare"))
		return words_is(words_next(&t), "transaction") ? 0 : LEAK_BIT(PREPARE);
	if (words_is(w, "create"))
		return create_of(t);
	if (words_is(w, "unlisten"))
		return words_is(words_next(&t), "*") ? LEAK_UNLISTEN_ALL : 0;
	return 0;
}

/* ---- functions ---- */

static bool is_before(struct words t, const char *at, const char *name)
{
	size_t len = strlen(name);

	return (size_t)(at - t.at) >= len && strncasecmp(at - len, name, len) == 0 &&
	       (at == t.at + len || !words_is_letter(at[-(ptrdiff_t)len - 1]));
}

/* Is `at` outside of strings, quoted names and comments?  t goes on from where the
 * question before it ended. */
static bool is_code(struct words *t, const char *at)
{
	while (t->at < at) {
		char quote = *t->at;
		if (words_is_comment(t)) {
			words_skip_comment(t);
			continue;
		}
		t->at++;
		if (quote != '\'' && quote != '"')
			continue;
		while (t->at < t->end && *t->at != quote)
			t->at++;
		t->at += t->at < t->end;
	}
	return t->at == at;
}

/* Does this stand at t, in letters of either case?  Then t goes on behind it. */
static bool is_passed(struct words *t, const char *part)
{
	size_t len = strlen(part);

	if ((size_t)(t->end - t->at) < len || strncasecmp(t->at, part, len) != 0)
		return false;
	t->at += len;
	return true;
}

static bool is_call(struct words *t)
{
	words_skip_blanks(t, false);
	return t->at < t->end && *t->at == '(';
}

/* The functions end in _advisory_lock or _advisory_lock_shared; those that lock until
 * the end of the transaction have an xact in between. */
static bool is_advisory_lock(struct words t, const char *at)
{
	struct words call = {at, t.end};

	if (!is_passed(&call, "_advisory_lock"))
		return false;
	is_passed(&call, "_shared");
	return is_call(&call) && (is_before(t, at, "pg") || is_before(t, at, "pg_try"));
}

/* Behind the argument of a call that begins here. */
static void skip_argument(struct words *t)
{
	size_t depth = 0;

	while (t->at < t->end) {
		char c = *t->at;
		if (depth == 0 && (c == ',' || c == ')'))
			return;
		depth += c == '(' || c == '[';
		depth -= (c == ')' || c == ']') && depth > 0;
		if (words_is_comment(t)) {
			words_skip_comment(t);
			continue;
		}
		t->at++;
		if (c != '\'' && c != '"')
			continue;
		while (t->at < t->end && *t->at != c)
			t->at++;
		t->at += t->at < t->end;
	}
}

/* set_config(name, value, is_local): harmless when it says TRUE, or when the name is a
 * literal of a tracked one. */
static bool is_set_config(struct words t, const char *at, const struct vars *tracked)
{
	struct words call = {at, t.end};
	struct word name = {0}, w;

	if (!is_passed(&call, "_config") || !is_before(t, at, "set") || !is_call(&call))
		return false;
	call.at++;
	words_skip_blanks(&call, false);
	if (call.at < call.end && *call.at == '\'')
		name.at = call.at + 1;
	skip_argument(&call);
	while (name.at && name.at + name.len < call.at && name.at[name.len] != '\'')
		name.len++;
	for (int i = 0; i < 2; i++) {
		if (call.at == call.end || *call.at != ',')
			return true;
		call.at++;
		if (i == 0)
			skip_argument(&call);
	}
	w = words_next(&call);
	return !words_is(w, "true") && !(name.at && is_tracked(tracked, name));
}

/* What functions that are called by name anywhere in the text leave. */
static uint16_t leak_of_calls(struct words t, const struct vars *tracked)
{
	struct words rest = t, code = t;
	uint16_t kinds = 0;

	while ((rest.at = memchr(rest.at, '_', (size_t)(rest.end - rest.at)))) {
		const char *at = rest.at++;
		uint16_t kind = 0;
		char next = rest.at < rest.end ? (char)(*rest.at | 0x20) : '\0';
		if (next == 'a' && is_advisory_lock(t, at))
			kind = LEAK_BIT(ADVISORY);
		else if (next == 'c' && is_set_config(t, at, tracked))
			kind = LEAK_BIT(CONFIG);
		if (kind && is_code(&code, at))
			kinds |= kind;
	}
	return kinds;
}

/* INSERT INTO temp is about a table of this name; so is MERGE. */
static bool is_behind_verb(struct words t, const char *at)
{
	while (at > t.at && (at[-1] == ' ' || (at[-1] >= '\t' && at[-1] <= '\r')))
		at--;
	return is_before(t, at, "insert") || is_before(t, at, "merge");
}

/* Quicker than to look for INTO: few texts have these letters at all. */
static bool mentions_temp(struct words t)
{
	for (const char *letter = "mM"; *letter; letter++) {
		const char *at = t.at;
		while ((at = memchr(at, *letter, (size_t)(t.end - at)))) {
			if (at - t.at >= 2 && (at[-1] | 0x20) == 'e' &&
			    (at[-2] | 0x20) == 't')
				return true;
			at++;
		}
	}
	return false;
}

/* SELECT .. INTO TEMP, in the letters that people write it in. */
static bool has_into_temp(struct words t)
{
	static const char *const words[] = {"into", "INTO", "Into"};
	struct words code = t;

	if (!mentions_temp(t))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct words rest = t, behind;
		while ((rest.at = memmem(rest.at, (size_t)(rest.end - rest.at),
			    words[i], strlen(words[i])))) {
			const char *at = rest.at;
			rest.at += strlen(words[i]);
			behind = rest;
			struct word w = words_next(&behind);
			if (words_is(w, "local") || words_is(w, "global"))
				w = words_next(&behind);
			if ((words_is(w, "temp") || words_is(w, "temporary")) &&
			    is_before(t, at, "") && !is_behind_verb(t, at) &&
			    is_code(&code, at))
				return true;
		}
	}
	return false;
}

struct leak_look leak_of_text(const char *text, size_t len, const struct vars *tracked)
{
	struct words whole = {text, text + len}, t;
	struct leak_look look = {0};
	uint16_t calls;

	/* a Query's text ends at its NUL */
	if (len && text[len - 1] == '\0')
		whole.end--;
	t = whole;
	words_skip_blanks(&t, true);
	look.all = statement_of(t, tracked);
	look.first = look.all & LEAK_KINDS;
	/* Strings are not told apart: what begins in one is only expected, and no tag
	 * comes for it. */
	for (int i = 1; i < STATEMENTS_MAX; i++) {
		t.at = memchr(t.at, ';', (size_t)(t.end - t.at));
		if (!t.at)
			break;
		words_skip_blanks(&t, true);
		look.all |= statement_of(t, tracked);
	}
	calls = leak_of_calls(whole, tracked);
	if (has_into_temp(whole))
		calls |= LEAK_BIT(TEMP);
	look.first |= calls;
	look.all |= calls;
	return look;
}

/* As pg_proc.dat has them, and has had them ever since. */
uint16_t leak_of_function(uint32_t oid)
{
	enum { SET_CONFIG = 2078, LOCK_FIRST = 2880, LOCK_LAST = 2889 };
	enum { UNLOCK = 2884, UNLOCK_SHARED = 2885 };

	if (oid == SET_CONFIG)
		return LEAK_BIT(CONFIG);
	if (oid < LOCK_FIRST || oid > LOCK_LAST || oid == UNLOCK ||
	    oid == UNLOCK_SHARED)
		return 0;
	return LEAK_BIT(ADVISORY);
}

/* ---- tags ---- */

static bool is_tag(const char *tag, size_t len, const char *wanted)
{
	return len == strlen(wanted) && memcmp(tag, wanted, len) == 0;
}

bool leak_may_matter(const char *tag, size_t len)
{
	switch (len ? tag[0] : 'S') {
	case 'S': /* not SELECT */
		return len < 3 || tag[2] == 'T';
	case 'C': /* not COPY, COMMIT */
		return len < 2 || tag[1] == 'L';
	case 'L':
	case 'D':
	case 'P':
		return true;
	}
	return false;
}

static uint16_t cleared_by(uint16_t expected, const char *tag, size_t len)
{
	if (is_tag(tag, len, "DISCARD ALL"))
		return LEAK_KINDS;
	if (is_tag(tag, len, "DISCARD TEMP"))
		return LEAK_BIT(TEMP);
	if (is_tag(tag, len, "DEALLOCATE ALL"))
		return LEAK_BIT(PREPARE);
	if (is_tag(tag, len, "CLOSE CURSOR ALL"))
		return LEAK_BIT(CURSOR);
	if (is_tag(tag, len, "UNLISTEN") && (expected & LEAK_UNLISTEN_ALL))
		return LEAK_BIT(LISTEN);
	return 0;
}

/* Several SETs of different kinds are told apart by their number only: those that leave
 * something come first, so that none is missed. */
static uint16_t of_set(struct leak_watch *watch)
{
	uint16_t family = watch->expected & (SET_FAMILY | LEAK_HARMLESS_SET);
	uint16_t unmet = family & (uint16_t)~watch->met, bit;

	if (!unmet)
		unmet = family;
	if (!unmet)
		return LEAK_BIT(SET);
	bit = unmet & (uint16_t)-unmet;
	watch->met |= bit;
	return bit & LEAK_KINDS;
}

/* Kinds many statements may leave: by the first that is not about the transaction. */
static uint16_t of_any(struct leak_watch *watch, const char *tag, size_t len)
{
	uint16_t due = watch->expected & (uint16_t)~watch->met &
		       (LEAK_BIT(TEMP) | LEAK_BIT(ADVISORY) | LEAK_BIT(CONFIG));

	if (is_tag(tag, len, "BEGIN") || is_tag(tag, len, "SET") ||
	    is_tag(tag, len, "START TRANSACTION"))
		return 0;
	watch->met |= due;
	return due;
}

uint16_t leak_of_tag(
    struct leak_watch *watch, const char *tag, size_t len, uint16_t *cleared)
{
	uint16_t kinds = 0;

	*cleared = cleared_by(watch->expected, tag, len);
	if (is_tag(tag, len, "SET"))
		return of_set(watch);
	for (int i = 0; i < LEAK_KIND_COUNT; i++)
		if (rows[i].tag && is_tag(tag, len, rows[i].tag))
			kinds |= (uint16_t)(1 << i);
	if (watch->expected & LEAK_HARMLESS_PREPARE)
		kinds &= (uint16_t)~LEAK_BIT(PREPARE);
	/* what a DECLARE holds is known from its text alone */
	if (!(watch->expected & (uint16_t)~watch->met & LEAK_BIT(CURSOR)))
		kinds &= (uint16_t)~LEAK_BIT(CURSOR);
	watch->met |= kinds & LEAK_BIT(CURSOR);
	return kinds | of_any(watch, tag, len);
}
