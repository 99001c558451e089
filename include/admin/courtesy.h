/*
 * What drivers ask or set right after connecting, answered so that they go on.
 */
#ifndef ADMIN_COURTESY_H
#define ADMIN_COURTESY_H

struct courtesy {
	const char *name;
	const char *value;
};

/* NULL when the name (in any case) is not one of them. */
const struct courtesy *courtesy_find(const char *name);

#endif
