/*
 * What a new configuration changes, as one line for the log.
 */
#ifndef DAEMON_CHANGES_H
#define DAEMON_CHANGES_H

#include "base/buf.h"
#include "daemon/configuration.h"

/* Appends "settings pool_mode, query_timeout; databases 1 added, 2 changed; ...", or
 * "nothing".  Call it before next is taken over. */
void changes_put(struct buf *out, const struct configuration *running,
    const struct configuration *next);

#endif
