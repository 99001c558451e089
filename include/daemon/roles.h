/*
 * The roles of a PostgreSQL server that can log in, read from pg_authid over a server
 * connection of this program's own kind.
 */
#ifndef DAEMON_ROLES_H
#define DAEMON_ROLES_H

#include <stddef.h>

#include "base/err.h"
#include "daemon/inquiry.h"

struct role {
	/* owned */
	char *name;
	char *secret;     /* as it is stored; NULL: none */
	char *expired_at; /* since when its password is no longer valid; NULL: it is */
};

struct roles {
	struct role *list; /* owned; in the order of their names */
	size_t count, room;
};

/* Connects to a server, which is described as an entry of [databases] is, with a user.
 * verbose: log as with so many -v; 0: nothing is logged.  roles are to be freed by
 * roles_done, whatever the answer is. */
enum inquiry_answer roles_read(
    struct roles *roles, const char *entry, int verbose, struct err *err);
void roles_done(struct roles *roles);

#endif
