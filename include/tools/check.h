/*
 * --check-config: would the pooler start, and would a reload work?
 */
#ifndef TOOLS_CHECK_H
#define TOOLS_CHECK_H

#include <stdio.h>

#include "daemon/loaded_config.h"
#include "daemon/options.h"

/* Reads the configuration and all files that it names, and prints each problem and each
 * warning as "file:line: what is wrong, and what to do".  Returns the number of
 * problems.  Changes nothing; but a process of root becomes the account that the pooler
 * is to run as. */
unsigned check_config(FILE *out, const struct options *options);
/* As check_config, but leaves what could be read in *loaded, which the caller has
 * passed to loaded_config_init. */
unsigned check_loaded(
    FILE *out, const struct options *options, struct loaded_config *loaded);

#endif
