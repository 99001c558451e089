/*
 * Which account of the outside (operating system user, certificate name) may log in as
 * which database user: the ident file, read and asked.  Beyond the reference's file it
 * reads what PostgreSQL 16 does: include lines, continued lines, /regular expressions
 * in both user fields, and \1 in the database user for what the first parentheses of
 * the system user matched.  PostgreSQL, "User Name Maps".
 */
#ifndef AUTH_IDENT_H
#define AUTH_IDENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct ident; /* one immutable snapshot of the maps */

/* As hba_note_fn. */
typedef void ident_note_fn(void *ctx, const char *where, const char *text);

/* Lines with faults are noted ("ident line N: ...", "could not parse ident config line
 * N") and skipped.  NULL and err when the file itself cannot be read: "could not open
 * ident config file F: strerror". */
struct ident *ident_load(
    const char *path, ident_note_fn *note, void *ctx, struct err *err);
/* The same over text that was read already; path says where relative files are. */
struct ident *ident_parse(
    const char *path, const char *text, size_t len, ident_note_fn *note, void *ctx);
void ident_free(struct ident **ident);
bool ident_has_map(const struct ident *ident, const char *map);

/* May system_user log in as db_user?  map NULL: when the names are equal.  ident NULL:
 * there are no maps. */
bool ident_may(const struct ident *ident, const char *map, const char *system_user,
    const char *db_user);

/* Somebody with several names, as a certificate has; who asks knows how to compare them
 * (wildcards, letter case). */
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
