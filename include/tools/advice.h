/*
 * Advice of --explain-config: common mistakes that are no errors, such as values that
 * have no effect together, missing limits, and secrets that other accounts can read.
 */
#ifndef TOOLS_ADVICE_H
#define TOOLS_ADVICE_H

#include <stdio.h>

#include "tools/overview.h"

/* Prints each piece of advice with the place that it is about, and a title before the
 * first.  Apart from the configuration it looks at the permissions of files, and at
 * figures of the pooler that runs with this configuration.
 * Returns the number of pieces. */
unsigned advice_put(FILE *out, const struct overview *o);

#endif
