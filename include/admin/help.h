/*
 * SHOW HELP: all commands and views in one notice.
 */
#ifndef ADMIN_HELP_H
#define ADMIN_HELP_H

#include "base/buf.h"

/* Appends the whole answer. */
void help_put(struct buf *out);

#endif
