/*
 * A name in a rule: the name itself, or a regular expression that matches it.
 * Expressions are POSIX extended ones and match anywhere in a name unless they are
 * anchored.  A construct that has another meaning in PostgreSQL is refused.
 */
#ifndef AUTH_PATTERN_H
#define AUTH_PATTERN_H

#include <regex.h>
#include <stdbool.h>

#include "base/err.h"

struct pattern {
	regex_t *regex; /* owned; NULL: text is the name itself */
	/* borrowed */
	const char *text; /* without the slash in front */
};

/* A regular expression.  -1 and err ('invalid regular expression "X": why'). */
int pattern_compile(struct pattern *p, const char *text, struct err *err);
void pattern_done(struct pattern *p);

enum pattern_result {
	PATTERN_NO,
	PATTERN_YES,
	PATTERN_FAILED, /* there is no memory, or the name is longer than names can be:
			 * nobody may be let in by it */
};

struct pattern_part {
	const char *start; /* NULL: the parentheses matched nothing */
	size_t len;
};

/* first, which may be NULL, gets what the first parentheses of an expression matched.
 */
enum pattern_result pattern_match(
    const struct pattern *p, const char *name, struct pattern_part *first);
/* Has it parentheses? */
bool pattern_has_part(const struct pattern *p);

#endif
