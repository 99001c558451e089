/*
 * The overview of --explain-config: the pools and limits in force, with the place where
 * each value is written, and the connections and descriptors that the configuration can
 * use.
 */
#ifndef TOOLS_OVERVIEW_H
#define TOOLS_OVERVIEW_H

#include <stdio.h>

#include "base/buf.h"
#include "daemon/sizing.h"

struct overview {
	/* borrowed */
	const struct sizing_input *input;
	const struct sizing *sizing;
	/* of this process: the soft and the hard limit of open files */
	long long descriptor_limit, descriptor_limit_hard;
};

void overview_put(FILE *out, const struct overview *o);

/* Appends "line 7", with the file before it if that is not the ini file itself. */
void overview_put_place(
    struct buf *out, const struct config *c, const char *file, unsigned line);

#endif
