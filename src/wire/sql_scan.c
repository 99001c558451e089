/*
 * Cuts SQL texts into tokens.  No byte is scanned again: a quote or comment without an
 * end reaches to the end of the text.
 */
#include "wire/sql_scan.h"

#include <string.h>
#include <strings.h>

/* A unit test defines this to count the bytes that are looked at. */
#ifndef SQL_SCAN_LOOKED_AT
#	define SQL_SCAN_LOOKED_AT(count) ((void)0)
#endif

enum { NAME_MOST = 63 }; /* PostgreSQL cuts longer names */

/* Classes of bytes.  The classes up to MARK are always tokens of one byte; those from
 * DIGIT on can be part of a word. */
enum {
	BLANK = ' ',
	MARK = '!',
	NAME_QUOTE = '"',
	QUOTE = '\'',
	MINUS = '-',
	SEMICOLON = '.',
	SLASH = '/',
	DIGIT = '0',
	DOLLAR = '@',
	LETTER = 'a',
};

/* Bytes above ASCII count as letters. */
static const char classes[257] = "!!!!!!!!!     !!"
				 "!!!!!!!!!!!!!!!!"
				 " !\"!@!!'!!!!!-!/"
				 "0000000000!.!!!!"
				 "!aaaaaaaaaaaaaaa"
				 "aaaaaaaaaaa!!!!a"
				 "!aaaaaaaaaaaaaaa"
				 "aaaaaaaaaaa!!!!!"
				 "aaaaaaaaaaaaaaaa"
				 "aaaaaaaaaaaaaaaa"
				 "aaaaaaaaaaaaaaaa"
				 "aaaaaaaaaaaaaaaa"
				 "aaaaaaaaaaaaaaaa"
				 "aaaaaaaaaaaaaaaa"
				 "aaaaaaaaaaaaaaaa"
				 "aaaaaaaaaaaaaaaa";

static inline char class_of(const char *at)
{
	SQL_SCAN_LOOKED_AT(1);
	return classes[(uint8_t)*at];
}

void sql_scan_init(struct sql_scan *s, const char *text, size_t len, bool has_escapes)
{
	size_t used = len ? strnlen(text, len) : 0;

	SQL_SCAN_LOOKED_AT(used);
	*s = (struct sql_scan){
	    .at = text,
	    .end = len ? text + used : text,
	    .has_escapes = has_escapes,
	};
}

/* ---- comments ---- */

static bool is_two(const char *at, const char *end, char first, char second)
{
	return end - at >= 2 && at[0] == first && at[1] == second;
}

/* Returns the end of the block comment that begins here. */
static const char *skip_block(const char *at, const char *end)
{
	size_t depth = 0;

	while (at < end) {
		if (is_two(at, end, '/', '*')) {
			depth++;
			at += 2;
		} else if (is_two(at, end, '*', '/')) {
			at += 2;
			if (--depth == 0)
				break;
		} else {
			at++;
		}
	}
	return at;
}

/* Returns the end of the comment that begins here, or `at` if there is none. */
static const char *skip_comment(const char *at, const char *end)
{
	const char *behind = at;

	if (is_two(at, end, '-', '-'))
		while (behind < end && *behind != '\n' && *behind != '\r')
			behind++;
	else if (is_two(at, end, '/', '*'))
		behind = skip_block(at, end);
	SQL_SCAN_LOOKED_AT((size_t)(behind - at));
	return behind;
}

/* Skips blanks and comments.  Notes a line break, behind which a string may
 * continue. */
static void skip_blanks(struct sql_scan *s)
{
	bool has_break = false;

	while (s->at < s->end) {
		const char *behind = s->at;
		char class = class_of(s->at);
		if (class == BLANK) {
			has_break |= *s->at == '\n' || *s->at == '\r';
			behind++;
		} else if (class == MINUS || class == SLASH) {
			behind = skip_comment(s->at, s->end);
			if (s->on_comment && behind > s->at && class == SLASH)
				s->on_comment(
				    s->on_comment_ctx, s->at, (size_t)(behind - s->at));
		}
		if (behind == s->at)
			break;
		s->at = behind;
	}
	s->is_continued = s->is_continued && has_break;
}

/* ---- quotes ---- */

/* Returns the next quote, doubled or not, or the end. */
static const char *find_quote(
    const char *at, const char *end, char quote, bool has_escapes)
{
	if (!has_escapes) {
		const char *found = memchr(at, quote, (size_t)(end - at));
		return found ? found : end;
	}
	while (at < end && *at != quote)
		at += *at == '\\' && end - at >= 2 ? 2 : 1;
	return at;
}

/* Reads the quoted token that begins at `open`.  has_escapes: a backslash escapes the
 * next byte. */
static void take_quoted(
    struct sql_scan *s, struct sql_token *t, const char *open, bool has_escapes)
{
	const char *at = open + 1, *end = s->end;
	char quote = *open;

	t->at = at;
	t->is_open = true;
	while (t->is_open && (at = find_quote(at, end, quote, has_escapes)) < end) {
		t->is_open = end - at >= 2 && at[1] == quote;
		at += t->is_open ? 2 : 0;
	}
	SQL_SCAN_LOOKED_AT((size_t)(at - open));
	t->len = (size_t)(at - t->at);
	s->at = t->to = t->is_open ? at : at + 1;
}

static void take_string(
    struct sql_scan *s, struct sql_token *t, const char *open, bool has_escapes)
{
	t->kind = SQL_STRING;
	take_quoted(s, t, open, has_escapes);
	s->is_continued = has_escapes;
}

/* Reads $1, $tag$..$tag$, or a single dollar. */
static void take_dollars(struct sql_scan *s, struct sql_token *t)
{
	const char *at = s->at + 1, *close;

	while (at < s->end && class_of(at) >= DIGIT && *at != '$')
		at++;
	bool has_tag = at < s->end && *at == '$' && class_of(s->at + 1) != DIGIT;
	if (!has_tag) {
		t->kind = SQL_MARK;
		t->mark = '$';
		s->at = at;
		return;
	}
	size_t size = (size_t)(at + 1 - s->at);
	t->kind = SQL_STRING;
	t->at = at + 1;
	close = memmem(t->at, (size_t)(s->end - t->at), s->at, size);
	t->is_open = !close;
	t->len = (size_t)((close ? close : s->end) - t->at);
	s->at = close ? close + size : s->end;
	SQL_SCAN_LOOKED_AT((size_t)(s->at - t->at));
}

/* ---- tokens ---- */

static const char *word_end(const char *at, const char *end)
{
	while (at < end && class_of(at) >= DIGIT)
		at++;
	return at;
}

static void take_word(struct sql_scan *s, struct sql_token *t)
{
	const char *end = word_end(s->at + 1, s->end);
	char letter = (char)(*s->at | 0x20);
	bool is_prefix = end == s->at + 1 && end < s->end && *end == '\'';

	if (is_prefix && (letter == 'e' || letter == 'b' || letter == 'x')) {
		take_string(s, t, end, letter == 'e');
		return;
	}
	t->kind = SQL_WORD;
	t->len = (size_t)(end - s->at);
	s->at = end;
}

/* Reads the token at s->at, which is no blank and no comment. */
static void take(struct sql_scan *s, struct sql_token *t)
{
	bool is_continued = s->is_continued;

	*t = (struct sql_token){.kind = SQL_MARK, .from = s->at, .at = s->at};
	s->is_continued = false;
	switch (class_of(s->at)) {
	case LETTER:
		take_word(s, t);
		break;
	case DIGIT:
		t->mark = '0';
		s->at = word_end(s->at, s->end);
		break;
	case DOLLAR:
		take_dollars(s, t);
		break;
	case QUOTE:
		take_string(s, t, s->at, s->has_escapes || is_continued);
		break;
	case NAME_QUOTE:
		t->kind = SQL_NAME;
		take_quoted(s, t, s->at, false);
		break;
	default:
		t->mark = *s->at++;
		t->len = 1;
		break;
	}
	t->to = s->at;
}

static void end(const struct sql_scan *s, struct sql_token *t)
{
	*t = (struct sql_token){
	    .kind = SQL_END, .from = s->at, .to = s->at, .at = s->at};
}

void sql_scan_next(struct sql_scan *s, struct sql_token *t)
{
	skip_blanks(s);
	if (s->at < s->end)
		take(s, t);
	else
		end(s, t);
}

bool sql_token_is(const struct sql_token *t, const char *word)
{
	return t->kind == SQL_WORD && t->len == strlen(word) &&
	       (t->at[0] | 0x20) == word[0] && strncasecmp(t->at, word, t->len) == 0;
}

/* ---- the fast way ---- */

static bool is_wanted(const struct sql_filter *filter, const char *word, size_t len)
{
	return filter->lengths[*word & 31] >> (len < 31 ? len : 31) & 1;
}

/* Skips blanks, marks, numbers and words that do not pass the filter; returns where
 * something else begins. */
static const char *pass(const struct sql_scan *s, const struct sql_filter *filter,
    const char **word, const char **word_to)
{
	const char *at = s->at, *begin;

	for (;;) {
		while (at < s->end && class_of(at) <= MARK)
			at++;
		if (at == s->end || class_of(at) < DIGIT || class_of(at) == DOLLAR)
			return at;
		begin = at;
		at = word_end(at + 1, s->end);
		if (class_of(begin) == DIGIT)
			continue;
		if (is_wanted(filter, begin, (size_t)(at - begin)) ||
		    (at < s->end && *at == '\'' && at == begin + 1))
			return begin;
		*word = begin;
		*word_to = at;
	}
}

void sql_scan_find(struct sql_scan *s, const struct sql_filter *filter,
    bool wants_strings, struct sql_token *t, struct sql_token *before)
{
	const char *word = NULL, *word_to = NULL;

	do {
		/* behind E'..' a line break matters, so blanks must not be skipped
		 * here */
		if (!s->is_continued)
			s->at = pass(s, filter, &word, &word_to);
		sql_scan_next(s, t);
		if (t->kind == SQL_WORD && !is_wanted(filter, t->at, t->len)) {
			word = t->from;
			word_to = t->to;
		}
	} while (t->kind == SQL_NAME || (t->kind == SQL_MARK && t->mark != ';') ||
		 (t->kind == SQL_STRING && !wants_strings) ||
		 (t->kind == SQL_WORD && word_to == t->to));
	if (word)
		*before = (struct sql_token){.kind = SQL_WORD,
		    .from = word,
		    .to = word_to,
		    .at = word,
		    .len = (size_t)(word_to - word)};
}

void sql_name_put(const struct sql_scan *s, const struct sql_token *t, struct buf *out)
{
	bool is_unicode = sql_token_is(t, "u") && s->at < s->end && *s->at == '&';
	size_t from = out->len;

	if (is_unicode || (t->kind != SQL_WORD && t->kind != SQL_NAME)) {
		buf_put_str(out, "\001");
		return;
	}
	for (size_t i = 0; i < t->len; i++) {
		char c = t->at[i];
		if (t->kind == SQL_WORD && c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		buf_put_u8(out, (uint8_t)c);
		/* it is doubled */
		i += t->kind == SQL_NAME && c == '"';
	}
	if (!out->failed && out->len - from > NAME_MOST)
		for (out->len = from + NAME_MOST;
		     (out->bytes[out->len] & 0xc0) == 0x80;)
			out->len--;
	buf_put_u8(out, 0);
}

/* ---- a text without its literals ---- */

void sql_normalize(const char *text, size_t len, bool has_escapes, char *out)
{
	const char *behind = text;
	bool was_number = false;
	struct sql_scan scan;
	struct sql_token t;

	sql_scan_init(&scan, text, len, has_escapes);
	for (sql_scan_next(&scan, &t); t.kind != SQL_END; sql_scan_next(&scan, &t)) {
		bool is_number = sql_token_is_mark(&t, '0');
		bool is_adjacent = t.from == behind;

		if (behind > text && !is_adjacent)
			*out++ = ' ';
		if (was_number && is_adjacent &&
		    (is_number || sql_token_is_mark(&t, '.'))) {
			behind = t.to; /* more of the same number */
			continue;
		}
		was_number = is_number;
		if (t.kind == SQL_STRING || is_number) {
			*out++ = '?';
		} else {
			memcpy(out, t.from, (size_t)(t.to - t.from));
			out += t.to - t.from;
		}
		behind = t.to;
	}
	*out = '\0';
}
