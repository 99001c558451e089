/* What tests of variables share. */
#ifndef TEST_UNIT_WIRE_PUT_SETS_H
#define TEST_UNIT_WIRE_PUT_SETS_H

#include "wire/vars.h"

/* Appends a SET with a semicolon for each value that differs; returns their number. */
static inline size_t put_sets(
    const struct vars *client, const struct vars *server, struct buf *sql)
{
	size_t count = 0;

	for (size_t i = 0; i < vars_schema_count(vars_schema(client)); i++) {
		if (!vars_is_put_set(client, server, i, "", sql))
			continue;
		buf_put_text(sql, ";");
		count++;
	}
	return count;
}

#endif
