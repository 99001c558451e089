/*
 * Connection strings as libpq accepts them: key=value pairs with libpq's quoting, or a
 * postgresql:// URI (PostgreSQL documentation, libpq: "Connection Strings").  The
 * meaning of keys is not known here.
 */
#ifndef CONF_CONNINFO_H
#define CONF_CONNINFO_H

#include "base/err.h"

/* Is called for each pair; the strings are borrowed for the call.  -1 and err stop the
 * parsing. */
typedef int conninfo_pair_fn(
    void *ctx, const char *key, const char *value, struct err *err);

/* Parses a connection string and calls take for each pair.  Several hosts of a URI come
 * as lists with commas.  -1 and err, which never repeats a part of the text, because it
 * may contain a password. */
int conninfo_read(const char *text, conninfo_pair_fn *take, void *ctx, struct err *err);

#endif
