/*
 * Reads the grammar of PostgreSQL's CREATE, ALTER and DROP DATABASE as far as the name.
 */
#include "wire/sql_vacated.h"

#include "wire/sql_scan.h"

/* What CREATE DATABASE copies if it does not say anything else. */
static const char usual_template[] = "template1";

bool sql_vacated(const char *text, size_t len, bool has_escapes, struct buf *name)
{
	struct sql_token t;
	struct sql_scan s;
	bool is_create;

	sql_scan_init(&s, text, len, has_escapes);
	do
		sql_scan_next(&s, &t);
	while (sql_token_is_mark(&t, ';'));
	is_create = sql_token_is(&t, "create");
	sql_scan_next(&s, &t); /* DATABASE */
	sql_scan_next(&s, &t);
	if (!is_create) {
		if (sql_token_is(&t, "if")) {
			sql_scan_next(&s, &t); /* EXISTS */
			sql_scan_next(&s, &t);
		}
		if (t.kind != SQL_WORD && t.kind != SQL_NAME)
			return false;
		sql_name_put(&s, &t, name);
		return true;
	}
	while (t.kind != SQL_END && !sql_token_is_mark(&t, ';')) {
		sql_scan_next(&s, &t);
		if (!sql_token_is(&t, "template"))
			continue;
		sql_scan_next(&s, &t);
		if (sql_token_is_mark(&t, '='))
			sql_scan_next(&s, &t);
		if (sql_token_is(&t, "default"))
			break;
		/* a string is a name as it stands */
		if (t.kind != SQL_STRING) {
			sql_name_put(&s, &t, name);
		} else {
			buf_put(name, t.at, t.len);
			buf_put_u8(name, 0);
		}
		return true;
	}
	buf_put_str(name, usual_template);
	return true;
}
