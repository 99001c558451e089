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

/* Makes p from the regular expression in text, which p borrows for as long as it lives.
 * Free it with pattern_done.  -1 and err ('invalid regular expression "X": why'): it is
 * refused, and there is nothing to free. */
int pattern_compile(struct pattern *p, const char *text, struct err *err);
/* Frees the compiled expression, if there is one; the text is the caller's. */
void pattern_done(struct pattern *p);

enum pattern_result {
	PATTERN_NO,
	PATTERN_YES,
	PATTERN_FAILED, /* there is no memory, or the name is longer than names can be:
			 * nobody may be let in by it */
};

/* A piece of the name that was matched; it points into that name. */
struct pattern_part {
	const char *start; /* NULL: the parentheses matched nothing */
	size_t len;
};

/* Does the pattern match the name?  first (or NULL) gets what the first parentheses of
 * a regular expression matched. */
enum pattern_result pattern_match(
    const struct pattern *p, const char *name, struct pattern_part *first);
/* Is it a regular expression with parentheses? */
bool pattern_has_part(const struct pattern *p);

#endif
