/*
 * Reads the roles that can log in from pg_authid of a PostgreSQL server.
 */
#ifndef TOOLS_ROLES_H
#define TOOLS_ROLES_H

#include <stddef.h>

#include "base/err.h"
#include "tools/pg_client.h"

struct role {
	/* owned */
	char *name;
	char *secret;     /* as it is stored; NULL: none */
	char *expired_at; /* since when the password is no longer valid; NULL: it is
			     valid */
};

struct roles {
	struct role *list; /* owned; in the order of their names */
	size_t count, room;
};

/* Connects to the server that entry describes like an entry of [databases], with a
 * user, and reads its roles.  verbose: logs as with so many -v; 0: logs nothing.  Free
 * roles by roles_done, whatever the answer is. */
enum pg_client_answer roles_read(
    struct roles *roles, const char *entry, int verbose, struct err *err);
void roles_done(struct roles *roles);

#endif
