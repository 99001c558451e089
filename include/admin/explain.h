/*
 * EXPLAIN LOGIN: how a login would go, without anybody logging in.
 */
#ifndef ADMIN_EXPLAIN_H
#define ADMIN_EXPLAIN_H

#include "admin/command.h"
#include "session/client.h"

/* Append the whole answer up to CommandComplete. -1: the address is invalid, and
 * nothing was appended. */
int explain_put(
    const struct client *asking, const struct command *command, struct buf *out);

#endif
