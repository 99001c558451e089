/*
 * The password file of libpq's programs: lines of
 * HOST:PORT:DATABASE:USER:PASSWORD, the first that fits counts (PostgreSQL, libpq, "The
 * Password File").
 */
#ifndef DAEMON_PASSFILE_H
#define DAEMON_PASSFILE_H

#include "base/err.h"

/* What a connection is to.  Host and port may be lists. */
struct passfile_key {
	const char *host, *port, *dbname, *user;
};

/* PGPASSFILE, or else .pgpass in the home folder; NULL: there is neither.  To be freed.
 */
char *passfile_default_path(void);
/* The password, to be freed with mem_free_secret; NULL: there is none.  Then err says,
 * unless its text is empty, why the file cannot be used. */
char *passfile_find(const char *path, const struct passfile_key *key, struct err *err);

#endif
