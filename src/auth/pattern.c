/*
 * Names and regular expressions, matched by the C library.  Patterns come from a
 * trusted file, but names come from peers.  So back references are refused, because
 * some names would make them very slow; and so are names longer than real ones, because
 * the time may grow with the square of the length.
 */
#include "auth/pattern.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"

/* No name of a user, a database or a host in a certificate is longer. */
enum { NAME_MOST = 255 };

static int refuse(const char *text, const char *why, struct err *err)
{
	return err_set(err, "invalid regular expression \"%.200s\": %s", text, why);
}

/* Returns the end of a bracket expression; NULL when it has none, which regcomp will
 * report. */
static const char *bracket_end(const char *at)
{
	at++;
	if (*at == '^')
		at++;
	if (*at == ']')
		at++;
	while (*at && *at != ']') {
		const char *inner = at[0] == '[' && at[1] && strchr(".:=", at[1])
					? strchr(at + 2, at[1])
					: NULL;
		at = inner && inner[1] == ']' ? inner + 2 : at + 1;
	}
	return *at ? at : NULL;
}

/* Allows escapes only for characters with a special meaning; \w and the like mean
 * nothing in POSIX. */
static int check_escape(const char *text, char c, struct err *err)
{
	if (c >= '0' && c <= '9')
		return refuse(text, "back references are not supported", err);
	if (c && !strchr("^.[]$()|*+?{}\\/-@", c))
		return refuse(text,
		    "only special characters can be escaped; write classes as "
		    "[0-9] or [[:alnum:]_]",
		    err);
	return 0;
}

/* Checks one part of an expression; leaves *at on its last character. */
static int check_part(
    const char *text, const char **at, bool *may_repeat, struct err *err)
{
	if (strchr("*+?", **at) || (**at == '{' && isdigit((unsigned char)(*at)[1]))) {
		/* a++ makes the C library use memory without limit, and a*?  means
		 * something else in PostgreSQL */
		if (!*may_repeat)
			return refuse(text, "a quantifier has nothing to repeat", err);
		*may_repeat = false;
		if (**at == '{' && strchr(*at, '}'))
			*at = strchr(*at, '}');
		return 0;
	}
	*may_repeat = !strchr("(|^", **at);
	if (**at == '(' && (*at)[1] == '?')
		return refuse(text, "(?...) is not supported", err);
	if (**at == '[') {
		const char *end = bracket_end(*at);
		if (!end)
			return refuse(text, "a bracket is not closed", err);
		if (memchr(*at, '\\', (size_t)(end - *at)))
			return refuse(
			    text, "a backslash means nothing in brackets", err);
		*at = end;
		return 0;
	}
	if (**at == '\\') {
		if (check_escape(text, (*at)[1], err) < 0)
			return -1;
		*at += (*at)[1] != '\0';
	}
	return 0;
}

/* Refuses expressions that regcomp accepts but PostgreSQL understands differently. */
static int check_dialect(const char *text, struct err *err)
{
	bool may_repeat = false;

	if (!*text)
		return refuse(text, "it is empty and would find every name", err);
	if (strncmp(text, "***", 3) == 0)
		return refuse(text, "directors (***) are not supported", err);
	for (const char *at = text; *at; at++) {
		if (check_part(text, &at, &may_repeat, err) < 0)
			return -1;
	}
	return 0;
}

int pattern_compile(struct pattern *p, const char *text, struct err *err)
{
	char why[128];

	p->text = text;
	p->regex = NULL;
	if (check_dialect(text, err) < 0)
		return -1;
	p->regex = mem_zero(sizeof(*p->regex));
	int code = regcomp(p->regex, text, REG_EXTENDED);
	if (!code)
		return 0;
	regerror(code, p->regex, why, sizeof(why));
	mem_free(p->regex);
	p->regex = NULL;
	return refuse(text, why, err);
}

void pattern_done(struct pattern *p)
{
	if (p->regex)
		regfree(p->regex);
	mem_free(p->regex);
	p->regex = NULL;
}

enum pattern_result pattern_match(
    const struct pattern *p, const char *name, struct pattern_part *first)
{
	regmatch_t parts[2];

	if (first)
		*first = (struct pattern_part){0};
	if (!p->regex)
		return strcmp(p->text, name) == 0 ? PATTERN_YES : PATTERN_NO;
	if (strnlen(name, NAME_MOST + 1) > NAME_MOST)
		return PATTERN_FAILED;
	int code = regexec(p->regex, name, first ? 2 : 0, parts, 0);
	if (code)
		return code == REG_NOMATCH ? PATTERN_NO : PATTERN_FAILED;
	if (first && p->regex->re_nsub && parts[1].rm_so >= 0) {
		first->start = name + parts[1].rm_so;
		first->len = (size_t)(parts[1].rm_eo - parts[1].rm_so);
	}
	return PATTERN_YES;
}

bool pattern_has_part(const struct pattern *p)
{
	return p->regex && p->regex->re_nsub > 0;
}
