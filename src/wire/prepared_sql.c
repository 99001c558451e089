#include "wire/prepared_sql.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* Copies a name and cuts it like PostgreSQL, between two UTF-8 characters. */
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

/* Copies a quoted name without quotes, with doubled quotes as one, up to the
 * maximum. */
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

void prepared_sql_read(
    const char *text, const struct command_span *span, struct prepared_sql *sql)
{
	const char *at = text + span->from, *end = text + span->to;

	*sql = (struct prepared_sql){.span = *span};
	if (span->kind == COMMAND_NONE)
		return;
	if (*at == '"') {
		unquote(sql, at + 1, end - 1);
		return;
	}
	put_name(sql, at, (size_t)(end - at));
	char *name = sql->name;
	for (; *name; name++)
		if (*name >= 'A' && *name <= 'Z')
			*name = (char)(*name - 'A' + 'a');
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
