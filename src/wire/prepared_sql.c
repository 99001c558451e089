/*
 * PREPARE, EXECUTE and DEALLOCATE as the first word of a query: where the name stands,
 * and as which it is known.  What comes behind the name is only skimmed, for the end of
 * the statement.
 */
#include "wire/prepared_sql.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "wire/codec.h"
#include "wire/prepared.h"

/* ---- tokens ---- */

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (uint8_t)c >= 0x80;
}

static bool is_name_part(char c)
{
	return is_name_start(c) || (c >= '0' && c <= '9') || c == '$';
}

static bool is_two(const char *at, const char *end, const char *two)
{
	return end - at >= 2 && at[0] == two[0] && at[1] == two[1];
}

/* Behind the comment that begins here; comments nest. */
static const char *skip_comment(const char *at, const char *end)
{
	size_t depth = 0;

	while (at < end) {
		if (is_two(at, end, "/*")) {
			depth++;
			at += 2;
		} else if (is_two(at, end, "*/")) {
			at += 2;
			if (--depth == 0)
				break;
		} else {
			at++;
		}
	}
	return at;
}

static const char *skip_blanks(const char *at, const char *end)
{
	for (;;) {
		if (at < end && is_blank(*at))
			at++;
		else if (is_two(at, end, "--"))
			while (at < end && *at != '\n' && *at != '\r')
				at++;
		else if (is_two(at, end, "/*"))
			at = skip_comment(at, end);
		else
			return at;
	}
}

static const char *word_end(const char *at, const char *end)
{
	if (at < end && is_name_start(*at))
		while (at < end && is_name_part(*at))
			at++;
	return at;
}

/* Behind the word and the blanks that follow it; NULL when another stands here. */
static const char *take_word(const char *at, const char *end, const char *word)
{
	const char *behind = word_end(at, end);
	size_t len = strlen(word);

	if ((size_t)(behind - at) != len || strncasecmp(at, word, len) != 0)
		return NULL;
	return skip_blanks(behind, end);
}

/* Behind the closing quote; end when there is none.  A doubled quote is none. */
static const char *skip_quoted(const char *at, const char *end, bool has_escapes)
{
	char quote = *at++;

	for (; at < end; at++) {
		if (has_escapes && *at == '\\' && end - at >= 2) {
			at++;
		} else if (*at == quote) {
			if (end - at < 2 || at[1] != quote)
				return at + 1;
			at++;
		}
	}
	return end;
}

/* Behind a string in dollars that begins here, or behind the dollar that does not. */
static const char *skip_dollars(const char *at, const char *end)
{
	const char *tag_end = at + 1;

	if (tag_end < end && is_name_start(*tag_end))
		while (tag_end < end && is_name_part(*tag_end) && *tag_end != '$')
			tag_end++;
	if (tag_end >= end || *tag_end != '$')
		return at + 1;
	size_t len = (size_t)(tag_end + 1 - at);
	const char *close = memmem(tag_end + 1, (size_t)(end - tag_end - 1), at, len);
	return close ? close + len : end;
}

/* To the semicolon that ends the statement, or the end. */
static const char *skip_statement(const char *at, const char *end)
{
	while (at < end && *at != ';') {
		const char *next = skip_blanks(at, end);
		if (next > at) {
			at = next;
			continue;
		}
		next = word_end(at, end);
		bool has_escapes =
		    next == at + 1 && (*at == 'e' || *at == 'E') && next < end;
		if (has_escapes && *next == '\'')
			at = skip_quoted(next, end, true);
		else if (next > at)
			at = next;
		else if (*at == '\'' || *at == '"')
			at = skip_quoted(at, end, false);
		else
			at = *at == '$' ? skip_dollars(at, end) : at + 1;
	}
	return at;
}

static bool is_last(const char *at, const char *end)
{
	while (at < end && (*at == ';' || skip_blanks(at, end) > at))
		at = *at == ';' ? at + 1 : skip_blanks(at, end);
	return at == end;
}

/* ---- names ---- */

/* PostgreSQL cuts long names where a character of UTF-8 ends. */
static void put_name(struct prepared_sql *sql, const char *name, size_t len)
{
	if (len >= sizeof(sql->name)) {
		len = sizeof(sql->name) - 1;
		for (int i = 0; i < 3 && ((uint8_t)name[len] & 0xC0) == 0x80; i++)
			len--;
	}
	memcpy(sql->name, name, len);
	sql->name[len] = 0;
}

static void fold(char *name)
{
	for (; *name; name++)
		if (*name >= 'A' && *name <= 'Z')
			*name = (char)(*name - 'A' + 'a');
}

/* What stands between the quotes, with doubled ones once; as much as a name can be. */
static void unquote(struct prepared_sql *sql, const char *at, const char *end)
{
	char name[2 * sizeof(sql->name)];
	size_t len = 0;

	for (; at < end && len < sizeof(name); at++) {
		name[len++] = *at;
		at += *at == '"';
	}
	put_name(sql, name, len);
}

/* Behind the name; NULL when there is none. */
static const char *take_name(struct prepared_sql *sql, const char *at, const char *end)
{
	const char *behind;

	if (at < end && *at == '"') {
		behind = skip_quoted(at, end, false);
		if (behind - at < 3 || behind[-1] != '"')
			return NULL;
		unquote(sql, at + 1, behind - 1);
		return behind;
	}
	behind = word_end(at, end);
	if (behind == at || (behind < end && (*behind == '&' || *behind == '.')))
		return NULL;
	put_name(sql, at, (size_t)(behind - at));
	fold(sql->name);
	return behind;
}

/* ---- statements ---- */

static const char *look_deallocate(
    struct prepared_sql *sql, const char *at, const char *end)
{
	const char *behind = take_word(at, end, "PREPARE");

	/* a statement may be called prepare */
	if (behind && behind < end && *behind != ';')
		at = behind;
	sql->kind = PREPARED_SQL_DEALLOCATE;
	behind = take_word(at, end, "ALL");
	if (behind)
		sql->kind = PREPARED_SQL_DEALLOCATE_ALL;
	return at;
}

/* What may follow the name. */
static bool may_follow(enum prepared_sql_kind kind, const char *at, const char *end)
{
	at = skip_blanks(at, end);
	if (kind == PREPARED_SQL_PREPARE)
		return at < end && (*at == '(' || take_word(at, end, "AS"));
	if (kind == PREPARED_SQL_EXECUTE && at < end && *at == '(')
		return true;
	return at == end || *at == ';';
}

/* Where the name would stand; NULL: it is none of the three. */
static const char *look_word(struct prepared_sql *sql, const char *at, const char *end)
{
	const char *behind;

	if ((behind = take_word(at, end, "PREPARE")))
		sql->kind = PREPARED_SQL_PREPARE;
	else if ((behind = take_word(at, end, "EXECUTE")))
		sql->kind = PREPARED_SQL_EXECUTE;
	else if ((behind = take_word(at, end, "DEALLOCATE")))
		behind = look_deallocate(sql, behind, end);
	return behind;
}

/* A NUL ends it, too. */
static const char *text_end(const char *text, size_t len)
{
	return len ? text + strnlen(text, len) : text;
}

bool prepared_sql_begins(const char *text, size_t len)
{
	struct prepared_sql sql;
	const char *end;

	/* most texts begin with another word */
	if (len > 0 && is_name_start(*text) && !strchr("pPeEdD", *text))
		return false;
	end = text_end(text, len);
	return look_word(&sql, skip_blanks(text, end), end) != NULL;
}

void prepared_sql_look(const char *text, size_t len, struct prepared_sql *sql)
{
	const char *end = text_end(text, len), *at, *behind;

	*sql = (struct prepared_sql){.kind = PREPARED_SQL_NONE};
	at = look_word(sql, skip_blanks(text, end), end);
	if (!at)
		return;
	behind = take_name(sql, at, end);
	if (!behind || !may_follow(sql->kind, behind, end)) {
		sql->kind = PREPARED_SQL_NONE;
		return;
	}
	const char *stop = skip_statement(behind, end);
	if (!is_last(stop, end))
		sql->kind = PREPARED_SQL_NONE;
	sql->from = (size_t)(at - text);
	sql->to = (size_t)(behind - text);
	sql->end = (size_t)(stop - text);
}

/* ---- errors ---- */

size_t prepared_sql_characters(const char *text, size_t len)
{
	size_t count = 0;

	for (size_t i = 0; i < len; i++)
		count += ((uint8_t)text[i] & 0xC0) != 0x80;
	return count;
}

static void put_position(
    const char *text, const struct prepared_sql_move *move, struct buf *out)
{
	unsigned long long position = strtoull(text, NULL, 10);

	if (position <= move->before)
		return;
	position -= move->before;
	if (position > move->name + 1)
		position -= (unsigned long long)move->longer;
	buf_put_u8(out, 'P');
	buf_printf(out, "%llu", position);
	buf_put_u8(out, 0);
}

void prepared_sql_put_error(const uint8_t *body, size_t len,
    const struct prepared_sql_move *move, struct buf *out)
{
	size_t at = 0;

	while (at < len && body[at]) {
		const uint8_t *nul = memchr(body + at, 0, len - at);
		if (!nul)
			break;
		size_t end = (size_t)(nul - body) + 1;
		if (body[at] == 'P')
			put_position((const char *)body + at + 1, move, out);
		else
			buf_put(out, body + at, end - at);
		at = end;
	}
	if (at < len)
		buf_put(out, body + at, len - at);
}
