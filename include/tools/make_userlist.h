/*
 * --make-userlist: makes a user list from the roles of a server. Files with secrets are
 * written completely or not at all, and are never readable by other accounts.
 */
#ifndef TOOLS_MAKE_USERLIST_H
#define TOOLS_MAKE_USERLIST_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "daemon/options.h"
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

/* Connects, reads the roles and writes the list to the file or to stdout.  Roles that
 * were left out and errors are printed on stderr.  Returns the exit status. */
int make_userlist(const struct options *options);

/* Appends a list of the roles that have a SCRAM or md5 secret. For the others there is
 * a comment, and left_out gets a line that says why.  Returns how many are in the list.
 */
size_t make_userlist_put(
    struct buf *list, struct buf *left_out, const struct roles *roles);

/* ---- the file ---- */

/* Checks whether a secret file may be written at this path.  -1 and err, which says
 * what to do, if other accounts can read or write the file there, or if it is no
 * regular file. */
int make_userlist_check_file(const char *path, struct err *err);
/* Writes the file and replaces an older one, whose owner and permissions it keeps.  A
 * new file is readable by its owner only.  -1 and err: nothing has changed. */
int make_userlist_write_file(
    const char *path, const void *bytes, size_t len, struct err *err);

#endif
