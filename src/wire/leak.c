/*
 * First words of statements and CommandComplete tags -> kinds of session state left
 * behind.  Who counts them, cleans or refuses is not known here.
 */
#include "wire/leak.h"

#include <string.h>
#include <strings.h>

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

/* ---- words ---- */

/* What is left of a text. */
struct text {
	const char *at, *end;
};

struct word {
	const char *at;
	size_t len;
};

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Bytes beyond ASCII are letters of an identifier too. */
static bool is_word_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z') || c == '_' || c == '$' || (uint8_t)c >= 0x80;
}

static bool is_comment(const struct text *t)
{
	return t->end - t->at >= 2 && ((t->at[0] == '-' && t->at[1] == '-') ||
					  (t->at[0] == '/' && t->at[1] == '*'));
}

/* Block comments nest. */
static void skip_comment(struct text *t)
{
	size_t depth = 0;

	if (*t->at == '-') {
		while (t->at < t->end && *t->at != '\n' && *t->at != '\r')
			t->at++;
		return;
	}
	while (t->end - t->at >= 2) {
		int step = t->at[0] == '/' && t->at[1] == '*'   ? 1
			   : t->at[0] == '*' && t->at[1] == '/' ? -1
								: 0;
		t->at += step ? 2 : 1;
		depth += (size_t)step;
		if (depth == 0)
			return;
	}
	t->at = t->end;
}

/* To the next word; empty statements before the first one do nothing. */
static void skip_blanks(struct text *t, bool semicolons)
{
	while (t->at < t->end) {
		if (is_blank(*t->at) || (semicolons && *t->at == ';'))
			t->at++;
		else if (is_comment(t))
			skip_comment(t);
		else
			return;
	}
}

/* A word, a quoted name without its quotes, or one other character. */
static struct word next_word(struct text *t)
{
	struct word w;

	skip_blanks(t, false);
	w = (struct word){.at = t->at};
	if (t->at < t->end && *t->at == '"') {
		w.at = ++t->at;
		while (t->at < t->end && *t->at != '"')
			t->at++;
		w.len = (size_t)(t->at - w.at);
		t->at += t->at < t->end;
		return w;
	}
	while (t->at < t->end && (is_word_char(*t->at) || *t->at == '.'))
		t->at++;
	if (t->at == w.at && t->at < t->end)
		t->at++;
	w.len = (size_t)(t->at - w.at);
	return w;
}

/* `word` is in lower case. */
static bool is_word(struct word w, const char *word)
{
	return w.len == strlen(word) && (w.at[0] | 0x20) == (word[0] | 0x20) &&
	       strncasecmp(w.at, word, w.len) == 0;
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
	i = vars_schema_find(tracked->schema, text);
	return i >= 0 && vars_get(tracked, (size_t)i);
}

/* The value behind `=`, TO or nothing: is it this word, or DEFAULT? */
static bool is_set_to(struct text t, const char *word)
{
	struct word w = next_word(&t);

	if (is_word(w, "=") || is_word(w, "to"))
		w = next_word(&t);
	return is_word(w, "default") || is_word(w, word);
}

static uint16_t unless_harmless(bool is_harmless, uint16_t bit)
{
	return is_harmless ? LEAK_HARMLESS_SET : bit;
}

static uint16_t set_of_parameter(
    struct text t, struct word name, const struct vars *tracked)
{
	static const struct word timezone = {"TimeZone", 8};
	static const struct word encoding = {"client_encoding", 15};
	static const struct word path = {"search_path", 11};

	if (is_word(name, "role"))
		return unless_harmless(is_set_to(t, "none"), LEAK_BIT(ROLE));
	if (is_word(name, "session_authorization"))
		return unless_harmless(
		    is_set_to(t, "default"), LEAK_BIT(AUTHORIZATION));
	if (is_word(name, "time")) {
		next_word(&t); /* ZONE */
		name = timezone;
	} else if (is_word(name, "names")) {
		name = encoding;
	} else if (is_word(name, "schema")) {
		name = path;
	}
	return unless_harmless(
	    is_tracked(tracked, name) || is_set_to(t, "default"), LEAK_BIT(SET));
}

static uint16_t set_of(struct text t, const struct vars *tracked)
{
	struct word w = next_word(&t);

	if (is_word(w, "local") || is_word(w, "transaction"))
		return LEAK_HARMLESS_SET;
	if (is_word(w, "constraints"))
		return 0;
	if (!is_word(w, "session"))
		return set_of_parameter(t, w, tracked);
	w = next_word(&t);
	if (is_word(w, "authorization"))
		return unless_harmless(
		    is_set_to(t, "default"), LEAK_BIT(AUTHORIZATION));
	if (is_word(w, "characteristics"))
		return LEAK_BIT(SET);
	return set_of_parameter(t, w, tracked);
}

/* ---- other statements ---- */

/* Do these words stand one after the other before `stop` (NULL: the statement's end)?
 */
static bool has_words(struct text t, const char *const words[], const char *stop)
{
	size_t found = 0;
	struct word w;

	while ((w = next_word(&t)).len && !is_word(w, ";") &&
	       !(stop && is_word(w, stop))) {
		if (!is_word(w, words[found]))
			found = is_word(w, words[0]);
		else
			found++;
		if (!words[found])
			return true;
	}
	return false;
}

static uint16_t create_of(struct text t)
{
	static const char *const on_commit_drop[] = {"on", "commit", "drop", NULL};
	struct word w = next_word(&t);

	while (is_word(w, "or") || is_word(w, "replace") || is_word(w, "global") ||
	       is_word(w, "local"))
		w = next_word(&t);
	if (!is_word(w, "temp") && !is_word(w, "temporary"))
		return 0;
	return has_words(t, on_commit_drop, NULL) ? 0 : LEAK_BIT(TEMP);
}

static uint16_t declare_of(struct text t)
{
	static const char *const with_hold[] = {"with", "hold", NULL};

	next_word(&t); /* its name */
	return has_words(t, with_hold, "for") ? LEAK_BIT(CURSOR) : 0;
}

/* t stands at the first word of a statement. */
static uint16_t statement_of(struct text t, const struct vars *tracked)
{
	struct word w;

	if (t.at == t.end || !strchr("sSlLdDpPcCuU", *t.at))
		return 0;
	w = next_word(&t);
	if (is_word(w, "set"))
		return set_of(t, tracked);
	if (is_word(w, "listen"))
		return LEAK_BIT(LISTEN);
	if (is_word(w, "load"))
		return LEAK_BIT(LOAD);
	if (is_word(w, "declare"))
		return declare_of(t);
	if (is_word(w, "prepare"))
		return is_word(next_word(&t), "transaction") ? 0 : LEAK_BIT(PREPARE);
	if (is_word(w, "create"))
		return create_of(t);
	if (is_word(w, "unlisten"))
		return is_word(next_word(&t), "*") ? LEAK_UNLISTEN_ALL : 0;
	return 0;
}

/* ---- advisory locks ---- */

static bool is_before(struct text t, const char *at, const char *name)
{
	size_t len = strlen(name);

	return (size_t)(at - t.at) >= len && strncasecmp(at - len, name, len) == 0 &&
	       (at == t.at + len || !is_word_char(at[-(ptrdiff_t)len - 1]));
}

/* Is `at` outside of strings, quoted names and comments?  t goes on from where the
 * question before it ended. */
static bool is_code(struct text *t, const char *at)
{
	while (t->at < at) {
		char quote = *t->at;
		if (is_comment(t)) {
			skip_comment(t);
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

/* The functions end in _advisory_lock or _advisory_lock_shared; those that lock until
 * the end of the transaction have an xact in between. */
static bool has_advisory_lock(struct text t)
{
	static const char name[] = "_advisory_lock", shared[] = "_shared";
	struct text rest = t, code = t;

	while ((rest.at = memchr(rest.at, '_', (size_t)(rest.end - rest.at)))) {
		const char *at = rest.at++;
		struct text call = {at + strlen(name), t.end};
		if ((rest.at < t.end && (*rest.at | 0x20) != 'a') ||
		    (size_t)(t.end - at) < sizeof(name) ||
		    strncasecmp(at, name, strlen(name)) != 0)
			continue;
		if ((size_t)(call.end - call.at) >= strlen(shared) &&
		    strncasecmp(call.at, shared, strlen(shared)) == 0)
			call.at += strlen(shared);
		skip_blanks(&call, false);
		if (call.at < call.end && *call.at == '(' &&
		    (is_before(t, at, "pg") || is_before(t, at, "pg_try")) &&
		    is_code(&code, at))
			return true;
	}
	return false;
}

struct leak_look leak_of_text(const char *text, size_t len, const struct vars *tracked)
{
	struct text whole = {text, text + len}, t;
	struct leak_look look = {0};

	/* a Query's text ends at its NUL */
	if (len && text[len - 1] == '\0')
		whole.end--;
	t = whole;
	skip_blanks(&t, true);
	look.all = statement_of(t, tracked);
	look.first = look.all & LEAK_KINDS;
	/* Strings are not told apart: what begins in one is only expected, and no tag
	 * comes for it. */
	for (int i = 1; i < STATEMENTS_MAX; i++) {
		t.at = memchr(t.at, ';', (size_t)(t.end - t.at));
		if (!t.at)
			break;
		skip_blanks(&t, true);
		look.all |= statement_of(t, tracked);
	}
	if (has_advisory_lock(whole)) {
		look.first |= LEAK_BIT(ADVISORY);
		look.all |= LEAK_BIT(ADVISORY);
	}
	return look;
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
		       (LEAK_BIT(TEMP) | LEAK_BIT(ADVISORY));

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
