/*
 * --make-userlist: makes a user list from the roles of a server.
 */
#ifndef TOOLS_MAKE_USERLIST_H
#define TOOLS_MAKE_USERLIST_H

#include "base/buf.h"
#include "daemon/options.h"
#include "tools/roles.h"

/* Connects, reads the roles and writes the list to the file or to stdout.  Roles that
 * were left out and errors are printed on stderr.  Returns the exit status. */
int make_userlist(const struct options *options);

/* Appends a list of the roles that have a SCRAM or md5 secret. For the others there is
 * a comment, and left_out gets a line that says why.  Returns how many are in the list.
 */
size_t make_userlist_put(
    struct buf *list, struct buf *left_out, const struct roles *roles);

#endif
