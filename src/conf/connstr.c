/*
 * Parses connection strings.  Its peculiarities are relied on by existing files: only
 * spaces separate pairs, a tab is part of a value, and the character behind a closing
 * quote is skipped, whatever it is.
 */
#include "conf/connstr.h"

#include <stdbool.h>
#include <string.h>

/* Reads a quoted value; *at is behind the opening quote. */
static int take_quoted(char **at, const char **value)
{
	char *from = *at, *to = *at;

	*value = to;
	for (;; from++) {
		if (*from == '\0')
			return -1;
		if (*from == '\'' && *++from != '\'')
			break;
		*to++ = *from;
	}
	*at = *from ? from + 1 : from;
	*to = '\0';
	return 0;
}

int connstr_next(char **at, const char **key, const char **value)
{
	char *p = *at + strspn(*at, " ");
	char *key_end;
	bool is_quoted;

	if (*p == '\0')
		return 0;
	*key = p;
	key_end = p += strcspn(p, " =");
	p += strspn(p, " ");
	if (*p != '=' || key_end == *key)
		return -1;
	p++;
	*key_end = '\0';
	p += strspn(p, " ");
	is_quoted = *p == '\'';
	if (is_quoted) {
		p++;
		if (take_quoted(&p, value) < 0)
			return -1;
	} else {
		char *stop = p + strcspn(p, " ");
		*value = p;
		p = *stop ? stop + 1 : stop;
		*stop = '\0';
	}
	*at = p;
	return **value || is_quoted ? 1 : -1;
}
