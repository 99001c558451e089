/*
 * Uses the SQL scanner to find comments, so that a string that looks like a comment
 * does not count.
 */
#include "wire/traceparent.h"

#include <string.h>

#include "wire/sql_scan.h"

static const char key[] = "traceparent='";
enum { KEY_LEN = sizeof(key) - 1, VALUE_LEN = TRACEPARENT_TEXT - 1 };

/* Number of digits of version, trace id, parent id and flags; a '-' stands between
 * them. */
static const size_t digits[] = {2, 32, 16, 2};
enum { PARTS = sizeof(digits) / sizeof(digits[0]), TRACE_ID = 1, PARENT_ID = 2 };

/* Checks the VALUE_LEN bytes at `at`.  Version ff and ids of zeros only are invalid. */
static bool is_valid(const char *at)
{
	if (memcmp(at, "ff", 2) == 0)
		return false;
	for (size_t part = 0; part < PARTS; part++) {
		bool is_zero = true;
		if (part > 0 && *at++ != '-')
			return false;
		for (size_t i = 0; i < digits[part]; i++, at++) {
			if (!((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f')))
				return false;
			is_zero = is_zero && *at == '0';
		}
		if (is_zero && (part == TRACE_ID || part == PARENT_ID))
			return false;
	}
	return true;
}

static void look(void *ctx, const char *comment, size_t len)
{
	const char *end = comment + len, *at = comment;
	char *out = ctx;

	/* the comment has no end, so PostgreSQL does not take it for one */
	if (len < 4 || memcmp(end - 2, "*/", 2) != 0)
		return;
	while (!*out && (at = memmem(at, (size_t)(end - at), key, KEY_LEN))) {
		at += KEY_LEN;
		if (end - at > VALUE_LEN && at[VALUE_LEN] == '\'' && is_valid(at) &&
		    memchr(",* \t\n\r", at[-KEY_LEN - 1], 6))
			memcpy(out, at, VALUE_LEN);
	}
}

bool traceparent_find(
    const char *text, size_t len, bool has_escapes, char out[TRACEPARENT_TEXT])
{
	static const struct sql_filter no_words;
	struct sql_token token, before;
	struct sql_scan scan;

	memset(out, 0, TRACEPARENT_TEXT);
	if (len > TRACEPARENT_LOOKED_AT)
		len = TRACEPARENT_LOOKED_AT;
	sql_scan_init(&scan, text, len, has_escapes);
	if (!memmem(text, (size_t)(scan.end - text), key, KEY_LEN))
		return false;
	scan.on_comment = look;
	scan.on_comment_ctx = out;
	do
		sql_scan_find(&scan, &no_words, false, &token, &before);
	while (!*out && token.kind != SQL_END);
	return *out != '\0';
}
