/*
 * Answers to the SHOW and SET commands that drivers send right after connecting, so
 * that drivers can use the console.
 */
#ifndef ADMIN_COURTESY_H
#define ADMIN_COURTESY_H

#include "base/buf.h"

struct courtesy {
	const char *name;
	const char *value;
};

/* Finds a parameter by its name, in upper or lower case; NULL: it is none of them. */
const struct courtesy *courtesy_find(const char *name);
/* Appends the whole answer to SHOW of the parameter: one column with one row. */
void courtesy_put(const struct courtesy *courtesy, struct buf *out);

#endif
