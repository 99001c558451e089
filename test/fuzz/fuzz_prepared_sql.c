/* links: wire base */
/*
 * Any text as a query, and as a Bind or an error.  Positions that are found lie inside
 * and in order; a query with another name is the same statement with that name.
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

static struct command_span look(const char *text, size_t len)
{
	return effects_of_text(text, len, &(struct effects_ask){0}).command;
}

static void look_again(const struct command_span *span, const char *text, size_t len)
{
	struct prepared_sql sql;
	struct command_span again;
	struct buf b;

	buf_init(&b, 0);
	buf_put(&b, text, span->from);
	buf_put_text(&b, "\"Ours\"");
	buf_put(&b, text + span->to, len - span->to);
	again = look((const char *)b.bytes, b.len);
	check(again.kind == span->kind);
	prepared_sql_read((const char *)b.bytes, &again, &sql);
	check(strcmp(sql.name, "Ours") == 0);
	check(again.from == span->from && again.end - again.to == span->end - span->to);
	buf_done(&b);
}

static void look_at_query(const char *text, size_t len)
{
	struct command_span span = look(text, len);
	struct prepared_sql sql;

	check(prepared_sql_characters(text, len) <= len);
	if (span.kind == COMMAND_NONE)
		return;
	check(effects_may_be_command(text, len));
	check(span.from < span.to && span.to <= span.end && span.end <= len);
	prepared_sql_read(text, &span, &sql);
	check(*sql.name && strlen(sql.name) < sizeof(sql.name));
	if (span.kind != COMMAND_DEALLOCATE_ALL)
		look_again(&span, text, len);
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
	struct prepared_registry *r =
	    prepared_registry_new(prepared_store_new(PREPARED_PREFIX));
	struct prepared_text *text = prepared_intern(r, "", bytes, len);

	check(text);
	prepared_may_bind_again(bytes, len, text, len & 1);
	prepared_unref(text);
	prepared_registry_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	/* the copy has the exact size, so that sanitizers see a read past its end */
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
