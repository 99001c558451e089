/*
 * What drivers ask or set right after connecting, answered so that they go on.
 */
#ifndef ADMIN_COURTESY_H
#define ADMIN_COURTESY_H

#include "base/buf.h"

struct courtesy {
	const char *name;
	const char *value;
};

/* NULL when the name (in any case) is not one of them. */
const struct courtesy *courtesy_find(const char *name);
/* Append the whole answer to SHOW of it: one column with one row. */
void courtesy_put(const struct courtesy *courtesy, struct buf *out);

#endif
