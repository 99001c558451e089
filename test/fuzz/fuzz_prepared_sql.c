/* links: wire base */
/*
 * Any text as a query, and as a Bind or an error.  What is found lies inside and in
 * order; the query with another name is the same statement with that name.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/prepared.h"
#include "wire/prepared_sql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void look_again(const struct prepared_sql *sql, const char *text, size_t len)
{
	struct prepared_sql again;
	struct buf b;

	buf_init(&b, 0);
	buf_put(&b, text, sql->from);
	buf_put_text(&b, "\"Ours\"");
	buf_put(&b, text + sql->to, len - sql->to);
	prepared_sql_look((const char *)b.bytes, b.len, &again);
	check(again.kind == sql->kind && strcmp(again.name, "Ours") == 0);
	check(again.from == sql->from && again.end - again.to == sql->end - sql->to);
	buf_done(&b);
}

static void look_at_query(const char *text, size_t len)
{
	struct prepared_sql sql;

	prepared_sql_look(text, len, &sql);
	check(prepared_sql_characters(text, len) <= len);
	if (sql.kind == PREPARED_SQL_NONE)
		return;
	check(prepared_sql_begins(text, len));
	check(sql.from < sql.to && sql.to <= sql.end && sql.end <= len);
	check(*sql.name && strlen(sql.name) < sizeof(sql.name));
	if (sql.kind != PREPARED_SQL_DEALLOCATE_ALL)
		look_again(&sql, text, len);
}

static void move_error(const uint8_t *body, size_t len)
{
	struct prepared_sql_move move = {.before = 30, .name = 8, .longer = 17};
	struct buf out;

	buf_init(&out, 0);
	prepared_sql_put_error(body, len, &move, &out);
	check(!out.failed);
	buf_done(&out);
}

static void bind_again(const uint8_t *bytes, size_t len)
{
	struct prepared_registry *r = prepared_registry_new();
	struct prepared_text *text = prepared_intern(r, bytes, len);

	check(text);
	prepared_may_bind_again(bytes, len, text, len & 1);
	prepared_unref(text);
	prepared_registry_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	/* of its own size, so that a read behind its end is seen */
	uint8_t *copy = malloc(len ? len : 1);

	check(copy);
	if (len)
		memcpy(copy, data, len);
	look_at_query((const char *)copy, len);
	move_error(copy, len);
	bind_again(copy, len);
	free(copy);
	return 0;
}
