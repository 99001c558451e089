/*
 * The parameters that drivers show or set right after connecting.
 */
#include "admin/courtesy.h"

#include <stddef.h>

#include "base/text.h"
#include "views/show.h"
#include "wire/codec.h"

static const struct courtesy courtesies[] = {
    {"client_encoding", "UTF-8"},
    {"default_transaction_isolation", "read committed"},
    {"standard_conforming_strings", "on"},
    {"datestyle", "ISO"},
    {"timezone", "GMT"},
};

const struct courtesy *courtesy_find(const char *name)
{
	for (size_t i = 0; i < sizeof(courtesies) / sizeof(courtesies[0]); i++)
		if (text_equal_nocase(courtesies[i].name, name))
			return &courtesies[i];
	return NULL;
}

void courtesy_put(const struct courtesy *courtesy, struct buf *out)
{
	const struct column column = {courtesy->name, &cell_text, NULL};
	struct rows rows;

	show_put_columns(&column, 1, out);
	rows_init(&rows, NULL, out, 1);
	row_begin(&rows);
	row_text(&rows, courtesy->value);
	row_end(&rows);
	codec_put_command_complete(out, "SHOW");
}
