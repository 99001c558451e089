/*
 * A name in a rule: a plain name, or a regular expression.  Expressions are POSIX
 * extended ones and match anywhere in a name unless they are anchored.  An expression
 * that would mean something else in PostgreSQL is refused.
 */
#ifndef AUTH_PATTERN_H
#define AUTH_PATTERN_H

#include <regex.h>
#include <stdbool.h>

#include "base/err.h"

struct pattern {
	regex_t *regex; /* owned; NULL: text is a plain name */
	/* borrowed */
	const char *text; /* without the slash in front */
};

/* Compiles the regular expression in text, which p borrows for as long as it lives.
 * Free it with pattern_done.  -1: it is refused, err is 'invalid regular expression
 * "X": why', and there is nothing to free. */
int pattern_compile(struct pattern *p, const char *text, struct err *err);
/* Frees the compiled expression, if there is one; the text belongs to the caller. */
void pattern_done(struct pattern *p);

enum pattern_result {
	PATTERN_NO,
	PATTERN_YES,
	/* there is no memory, or the name is too long: nobody may be let in */
	PATTERN_FAILED,
};

/* A part of a matched name; it points into that name. */
struct pattern_part {
	const char *start; /* NULL: the parentheses matched nothing */
	size_t len;
};

/* Matches the name.  first (may be NULL) gets what the first parentheses of a regular
 * expression matched. */
enum pattern_result pattern_match(
    const struct pattern *p, const char *name, struct pattern_part *first);
/* Whether it is a regular expression with parentheses. */
bool pattern_has_part(const struct pattern *p);

#endif
