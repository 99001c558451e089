/*
 * Converts a connection string of libpq, together with libpq's environment variables,
 * to the form of an entry of [databases].
 */
#ifndef TOOLS_LIBPQ_ENTRY_H
#define TOOLS_LIBPQ_ENTRY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum { LIBPQ_ENTRY_KEYS = 8 };

struct libpq_entry {
	struct buf text;
	char *values[LIBPQ_ENTRY_KEYS]; /* owned; NULL: not given */
	bool has_file_password;
};

/* The values that apply if neither the string nor the environment has one; NULL: none.
 */
struct libpq_defaults {
	const char *dbname, *port;
	bool is_console; /* PGDATABASE means another database */
};

void libpq_entry_init(struct libpq_entry *entry);
/* Wipes the text, which may contain a password. */
void libpq_entry_done(struct libpq_entry *entry);
/* A password that stands nowhere else comes from the password file; one that cannot be
 * used is told on stderr. */
int libpq_entry_read(struct libpq_entry *entry, const char *conninfo,
    const struct libpq_defaults *defaults, struct err *err);
void libpq_entry_put(struct libpq_entry *entry, const char *key, const char *value);
/* Adds where the password came from to the error of a refused login. */
void libpq_entry_explain(const struct libpq_entry *entry, struct err *err);

/* ---- connection strings of libpq ---- */

/* Both forms: key=value pairs with libpq's quoting, or a postgresql:// URI
 * (PostgreSQL documentation, libpq: "Connection Strings").  The meaning of keys is
 * not known here. */

/* Is called for each pair; the strings are borrowed for the call.  -1 and err stop the
 * parsing. */
typedef int conninfo_pair_fn(
    void *ctx, const char *key, const char *value, struct err *err);
/* Parses a connection string and calls take for each pair.  Several hosts of a URI come
 * as lists with commas.  -1 and err, which never repeats a part of the text, because it
 * may contain a password. */
int libpq_entry_read_conninfo(
    const char *text, conninfo_pair_fn *take, void *ctx, struct err *err);

/* ---- the password file ---- */

/* Its lines are HOST:PORT:DATABASE:USER:PASSWORD, and the first one that matches is
 * used (PostgreSQL, libpq, "The Password File"). */

/* The connection that needs a password.  Host and port may be lists. */
struct passfile_key {
	const char *host, *port, *dbname, *user;
};

/* The path in PGPASSFILE or that of .pgpass in the home folder; the caller frees it.
 * NULL: there is neither.
 */
char *libpq_entry_passfile_path(void);
/* Finds the password; the caller frees it with mem_free_secret.  NULL: there is none;
 * err says why the file cannot be used, or its text is empty. */
char *libpq_entry_find_password(
    const char *path, const struct passfile_key *key, struct err *err);

#endif
