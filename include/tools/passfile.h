/*
 * Reads the password file of libpq's programs.  Its lines are
 * HOST:PORT:DATABASE:USER:PASSWORD, and the first one that matches is used (PostgreSQL,
 * libpq, "The Password File").
 */
#ifndef TOOLS_PASSFILE_H
#define TOOLS_PASSFILE_H

#include "base/err.h"

/* The connection that needs a password.  Host and port may be lists. */
struct passfile_key {
	const char *host, *port, *dbname, *user;
};

/* The path in PGPASSFILE or that of .pgpass in the home folder; the caller frees it.
 * NULL: there is neither.
 */
char *passfile_default_path(void);
/* Finds the password; the caller frees it with mem_free_secret.  NULL: there is none;
 * err says why the file cannot be used, or its text is empty. */
char *passfile_find(const char *path, const struct passfile_key *key, struct err *err);

#endif
