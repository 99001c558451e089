/*
 * Connection strings as PostgreSQL's programs take them: key=value pairs with libpq's
 * quoting, or a postgresql:// URI (PostgreSQL, libpq, "Connection Strings").  Keys are
 * not known here.
 */
#ifndef CONF_CONNINFO_H
#define CONF_CONNINFO_H

#include "base/err.h"

/* The texts are borrowed for the call.  -1 and err end the reading. */
typedef int conninfo_pair_fn(
    void *ctx, const char *key, const char *value, struct err *err);

/* Calls take for each pair.  Several hosts of a URI come as lists with commas.  -1 and
 * err, in which nothing of the text is repeated, for it may hold a password. */
int conninfo_read(const char *text, conninfo_pair_fn *take, void *ctx, struct err *err);

#endif
