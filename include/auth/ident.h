/*
 * The ident file: its maps say which system user (operating system account or name in a
 * certificate) may log in as which database user.  Besides what PgBouncer reads it
 * reads what PostgreSQL 16 does: include lines, continued lines, /regular expressions
 * in both user fields, and \1 in the database user for what the first parentheses of
 * the system user matched.  PostgreSQL, "User Name Maps".
 */
#ifndef AUTH_IDENT_H
#define AUTH_IDENT_H

#include <stdbool.h>
#include <stddef.h>

#include "auth/remark.h"
#include "base/err.h"

struct ident; /* one immutable snapshot of the maps */

/* Reads the file and the files it includes.  A line that cannot be read is reported
 * as a fault ("ident line N: ...") and as known text ("could not parse ident config
 * line N"), and the whole file is refused.  NULL and err when the file is refused, or
 * when it cannot be opened, without a remark: "could not open ident config file F:
 * strerror". */
struct ident *ident_load(
    const char *path, remark_fn *remark, void *ctx, struct err *err);
/* The same with the text of the file; path says where relative files are. */
struct ident *ident_parse(const char *path, const char *text, size_t len,
    remark_fn *remark, void *ctx, struct err *err);
void ident_free(struct ident **ident);
bool ident_has_map(const struct ident *ident, const char *map);

/* May system_user log in as db_user?  map NULL: yes when the names are equal.  ident
 * NULL: there are no maps. */
bool ident_may(const struct ident *ident, const char *map, const char *system_user,
    const char *db_user);

/* A system user with several names, as a certificate has.  The caller knows how to
 * compare them (wildcards, letter case). */
struct ident_names {
	/* Is this one of the names? */
	bool (*is_name)(void *ctx, const char *name);
	/* The names one by one, for regular expressions: NULL ends.  Borrowed until the
	 * next call. */
	const char *(*name_at)(void *ctx, size_t i);
	void *ctx;
};
/* As ident_may for any of the names. */
bool ident_may_any(const struct ident *ident, const char *map,
    const struct ident_names *names, const char *db_user);

#endif
