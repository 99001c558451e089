/*
 * A live view of a pooler: `pgbouncer --top [CONNINFO]`.
 */
#ifndef TOP_TOP_H
#define TOP_TOP_H

#include "daemon/options.h"

/* Runs until the user quits, or, if the output is no terminal, until the reader closes
 * it.  Returns the exit status. */
int top_run(const struct options *options);

#endif
