/*
 * Writes files with secrets: completely or not at all, and never readable by other
 * accounts.
 */
#ifndef TOOLS_SECRET_FILE_H
#define TOOLS_SECRET_FILE_H

#include <stddef.h>

#include "base/err.h"

/* Checks whether a secret file may be written at this path.  -1 and err, which says
 * what to do, if other accounts can read or write the file there, or if it is no
 * regular file. */
int secret_file_check(const char *path, struct err *err);
/* Writes the file and replaces an older one, whose owner and permissions it keeps.  A
 * new file is readable by its owner only.  -1 and err: nothing has changed. */
int secret_file_write(const char *path, const void *bytes, size_t len, struct err *err);

#endif
