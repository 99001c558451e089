#include "wire/sql_normalize.h"

#include <string.h>

#include "wire/sql_scan.h"

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
