/*
 * A live view of a pooler: `pgbouncer --top [CONNINFO]`.
 */
#ifndef TOP_TOP_H
#define TOP_TOP_H

#include "daemon/options.h"

/* Until its person quits, or, where the output is no terminal, the reader does.  Gives
 * the exit code. */
int top_run(const struct options *options);

#endif
