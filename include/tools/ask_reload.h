/*
 * `pgbouncer --reload CONNINFO`: RELOAD on the console of a running pooler.
 */
#ifndef TOOLS_ASK_RELOAD_H
#define TOOLS_ASK_RELOAD_H

#include "daemon/options.h"

/* Returns the exit status: 1 if the reload was refused, 2 if the console could not be
 * asked, which stderr explains. */
int ask_reload(const struct options *options);

#endif
