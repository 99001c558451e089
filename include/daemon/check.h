/*
 * --check-config: would the pooler start, and would a reload work?
 */
#ifndef DAEMON_CHECK_H
#define DAEMON_CHECK_H

#include <stdio.h>

#include "daemon/configuration.h"
#include "daemon/options.h"

/* Read the configuration and all it names, print each problem and each warning as
 * "file:line: what, and what to do".  Returns the number of problems.  Touches nothing,
 * but when run by root the process becomes the user it is to run as. */
unsigned check_config(FILE *out, const struct options *options);
/* The same; what could be read is left in *loaded, which configuration_init has made.
 */
unsigned check_loaded(
    FILE *out, const struct options *options, struct configuration *loaded);

#endif
