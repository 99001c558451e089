/*
 * The ident file: maps that say which system user (account of the operating system,
 * name in a certificate, or principal of Kerberos) may log in as which database user.
 * It supports what PgBouncer supports, and also what PostgreSQL 16 does: include lines,
 * continued lines, /regular expressions in both user fields, and \1 in the database
 * user for what the first parentheses of the system user matched.  PostgreSQL
 * documentation: "User Name Maps".
 */
#ifndef AUTH_IDENT_H
#define AUTH_IDENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diagnostic.h"
#include "base/err.h"

struct ident; /* an immutable snapshot of the maps */

/* Reads the file and the files it includes.  A line that cannot be read is reported as
 * a fault ("ident line N: ..."), and once more with the text that log watchers know
 * ("could not parse ident config line N"); the whole file is then refused.  Returns
 * NULL and fills err when the file is refused, or cannot be opened; in the latter case
 * there is no report, and err is "could not open ident config file F: strerror". */
struct ident *ident_load(
    const char *path, diagnostic_fn *report, void *ctx, struct err *err);
/* Like ident_load, with the text of the file; path says where relative files are. */
struct ident *ident_parse(const char *path, const char *text, size_t len,
    diagnostic_fn *report, void *ctx, struct err *err);
void ident_free(struct ident **ident);
bool ident_has_map(const struct ident *ident, const char *map);

/* Whether system_user may log in as db_user.  map NULL: the names must be equal.  ident
 * NULL: there are no maps. */
bool ident_may(const struct ident *ident, const char *map, const char *system_user,
    const char *db_user);

/* A system user with several names, as a certificate can have.  The caller compares
 * them, because it knows where they are. */
struct ident_names {
	/* Whether this is one of the names. */
	bool (*is_name)(void *ctx, const char *name);
	/* Returns the names one by one, for regular expressions; NULL behind the last
	 * one.  Borrowed until the next call. */
	const char *(*name_at)(void *ctx, size_t i);
	void *ctx;
	/* plain names of the lines are compared with both users whatever the case of
	 * their ASCII letters, as is_name does */
	bool is_caseless;
};
/* Whether a user with one of these names may log in as db_user; see ident_may. */
bool ident_may_any(const struct ident *ident, const char *map,
    const struct ident_names *names, const char *db_user);

#endif
