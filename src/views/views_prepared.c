/*
 * SHOW PREPARED_STATEMENTS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "views/views.def"
#include "views/views.h"
#include "wire/prepared.h"

/* How many bytes of a query are shown, which is enough to recognize it. */
enum { QUERY_SHOWN = 200 };

static void put_prepared(struct rows *rows, const struct prepared_text *text)
{
	char query[QUERY_SHOWN + sizeof("...")];
	struct buf list;

	/* copies a query and cuts it, but not within a UTF-8 character */
	const char *sql = prepared_sql(text);
	size_t len = strlen(sql);
	bool is_cut = len > QUERY_SHOWN;
	if (is_cut)
		for (len = QUERY_SHOWN;
		     len && ((unsigned char)sql[len] & 0xc0) == 0x80;)
			len--;
	memcpy(query, sql, len);
	memcpy(query + len, is_cut ? "..." : "", is_cut ? sizeof("...") : 1);
	buf_init(&list, 0);
	for (size_t i = 0; i < prepared_type_count(text); i++)
		buf_printf(&list, "%s%u", i ? "," : "", prepared_type(text, i));
	const char *types = buf_text(&list);
	row_begin(rows);
	PREPARED_COLUMNS(CELL)
	row_end(rows);
	buf_done(&list);
}

static void put_all(struct rows *rows, const struct prepared_registry *registry)
{
	struct prepared_text **texts;
	size_t count = 0;

	if (!registry)
		return;
	texts = prepared_registry_sorted(registry, &count);
	for (size_t i = 0; i < count; i++)
		put_prepared(rows, texts[i]);
	free(texts);
}

void view_prepared_statements(struct rows *rows)
{
	put_all(rows, rows->site->prepared);
	put_all(rows, rows->site->sql_prepared);
}
