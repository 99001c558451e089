/*
 * Files with secrets: written as a whole or not at all, and never where others can read
 * them.
 */
#ifndef DAEMON_SECRET_FILE_H
#define DAEMON_SECRET_FILE_H

#include <stddef.h>

#include "base/err.h"

/* May a secret file be written here?  Not over one that others can read or write, nor
 * over what is no file.  -1 and err, which says what to do. */
int secret_file_check(const char *path, struct err *err);
/* Writes it in place of the one that is there, whose owner and permissions it keeps; a
 * new one is for its owner alone.  -1 and err: nothing has changed. */
int secret_file_write(const char *path, const void *bytes, size_t len, struct err *err);

#endif
