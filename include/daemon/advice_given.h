/*
 * One piece of advice after the other, each with its place.
 */
#ifndef DAEMON_ADVICE_GIVEN_H
#define DAEMON_ADVICE_GIVEN_H

#include <stdio.h>

#include "daemon/overview.h"

struct advice {
	unsigned count; /* of those given */
	/* borrowed */
	FILE *out;
	const struct overview *o;
};

/* About a setting of the process; NULL: about nothing that is written in one place. */
void advice_give(struct advice *a, const struct setting *row, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void advice_give_at(struct advice *a, const char *file, unsigned line, const char *fmt,
    ...) __attribute__((format(printf, 4, 5)));

#endif
