/*
 * What a new configuration changes, as one line for the log.
 */
#ifndef DAEMON_CONFIG_DIFF_H
#define DAEMON_CONFIG_DIFF_H

#include "base/buf.h"
#include "daemon/loaded_config.h"

/* Appends "settings pool_mode, query_timeout; databases 1 added, 2 changed; ...", or
 * "nothing".  Call it before next is taken over. */
void config_diff_put(struct buf *out, const struct loaded_config *running,
    const struct loaded_config *next);

#endif
