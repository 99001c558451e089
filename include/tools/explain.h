/*
 * --explain-config: what --check-config finds, and an overview of pools, limits and
 * connections.
 */
#ifndef TOOLS_EXPLAIN_H
#define TOOLS_EXPLAIN_H

#include <stdio.h>

#include "daemon/options.h"

/* Loads and prints as check_config does, and then the overview and the advice.  Returns
 * the number of problems; advice does not count.  Opens no connection. */
unsigned explain_config(FILE *out, const struct options *options);

#endif
