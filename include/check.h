/*
 * --check-config: would the pooler start, and would a reload work?
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

#include "options.h"

/* Read the configuration and all it names, print each problem and each warning as
 * "file:line: what, and what to do".  Returns the number of problems.  Touches nothing,
 * but when run by root the process becomes the user it is to run as. */
unsigned check_config(FILE *out, const struct options *options);

#endif
