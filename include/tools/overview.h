/*
 * The overview of --explain-config: the pools and limits in force, with the place where
 * each value is written, and the connections and descriptors that the configuration can
 * use.
 */
#ifndef TOOLS_OVERVIEW_H
#define TOOLS_OVERVIEW_H

#include <stdio.h>

#include "base/buf.h"
#include "daemon/sizing.h"

struct overview {
	/* borrowed */
	const struct sizing_input *input;
	const struct sizing *sizing;
	/* of this process: the soft and the hard limit of open files */
	long long descriptor_limit, descriptor_limit_hard;
};

void overview_put(FILE *out, const struct overview *o);

/* ---- advice ---- */

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
