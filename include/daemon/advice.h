/*
 * What usually goes wrong with a configuration that is no error: values that mean
 * nothing together, limits that are none, secrets that others can read.
 */
#ifndef DAEMON_ADVICE_H
#define DAEMON_ADVICE_H

#include <stdio.h>

#include "daemon/overview.h"

/* Prints each piece of advice with its place, and a title before the first.  Looks at
 * the permissions of files, and at nothing else outside the configuration.  Returns how
 * many there were. */
unsigned advice_put(FILE *out, const struct overview *o);

#endif
