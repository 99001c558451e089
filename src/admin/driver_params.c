/*
 * The parameters that drivers show or set right after connecting.
 */
#include "admin/driver_params.h"

#include <stddef.h>

#include "base/text.h"
#include "views/show.h"
#include "wire/codec.h"

static const struct driver_param params[] = {
    {"client_encoding", "UTF-8"},
    {"default_transaction_isolation", "read committed"},
    {"standard_conforming_strings", "on"},
    {"datestyle", "ISO"},
    {"timezone", "GMT"},
};

const struct driver_param *driver_param_find(const char *name)
{
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
		if (text_equal_nocase(params[i].name, name))
			return &params[i];
	return NULL;
}

void driver_param_put(const struct driver_param *param, struct buf *out)
{
	const struct column column = {param->name, &cell_text, NULL};
	struct rows rows;

	show_put_columns(&column, 1, out);
	rows_init(&rows, NULL, out, 1);
	row_begin(&rows);
	row_text(&rows, param->value);
	row_end(&rows);
	codec_put_command_complete(out, "SHOW");
}
