/*
 * EXPLAIN LOGIN: explains how a login would be decided, without a login.
 */
#ifndef ADMIN_EXPLAIN_H
#define ADMIN_EXPLAIN_H

#include "admin/command.h"
#include "session/client.h"

/* Appends the whole answer up to CommandComplete.  -1: the address is invalid; nothing
 * was appended. */
int explain_put(
    const struct client *asking, const struct command *command, struct buf *out);

#endif
