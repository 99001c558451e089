/*
 * Prints pieces of advice, each with the place that it is about.
 */
#ifndef TOOLS_ADVICE_GIVEN_H
#define TOOLS_ADVICE_GIVEN_H

#include <stdio.h>

#include "tools/overview.h"

struct advice {
	unsigned count; /* how many were given */
	/* borrowed */
	FILE *out;
	const struct overview *o;
};

/* Advice about a setting of the process.  row NULL: it is not about a single place. */
void advice_give(struct advice *a, const struct setting *row, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void advice_give_at(struct advice *a, const char *file, unsigned line, const char *fmt,
    ...) __attribute__((format(printf, 4, 5)));

#endif
