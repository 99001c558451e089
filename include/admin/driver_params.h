/*
 * Answers to the SHOW and SET commands that drivers send right after connecting, so
 * that drivers can use the console.
 */
#ifndef ADMIN_DRIVER_PARAMS_H
#define ADMIN_DRIVER_PARAMS_H

#include "base/buf.h"

struct driver_param {
	const char *name;
	const char *value;
};

/* Finds a parameter by its name, in upper or lower case; NULL: it is none of them. */
const struct driver_param *driver_param_find(const char *name);
/* Appends the whole answer to SHOW of the parameter: one column with one row. */
void driver_param_put(const struct driver_param *param, struct buf *out);

#endif
