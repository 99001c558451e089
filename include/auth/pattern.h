/*
 * A name as rules write it: itself, or a regular expression that finds it.  Expressions
 * are POSIX extended ones, found anywhere unless anchored; what PostgreSQL's would mean
 * otherwise than POSIX is refused rather than misread.
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
	PATTERN_FAILED, /* no memory to find out, or a name too long to be one: nobody
			   may be let in by it */
};

struct pattern_part {
	const char *start; /* NULL: the parentheses matched nothing */
	size_t len;
};

/* first (or NULL) gets what the first parentheses of an expression matched. */
enum pattern_result pattern_match(
    const struct pattern *p, const char *name, struct pattern_part *first);
/* Has it parentheses? */
bool pattern_has_part(const struct pattern *p);

#endif
