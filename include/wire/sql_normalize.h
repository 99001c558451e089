/*
 * SQL texts without their literals, as they may be logged.
 */
#ifndef WIRE_SQL_NORMALIZE_H
#define WIRE_SQL_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the text to out, at most len + 1 bytes with a NUL: each string and each number
 * is a question mark, comments are left out, and blanks are one blank.  A literal whose
 * end is cut off is one as well.  has_escapes: standard_conforming_strings is off. */
void sql_normalize(const char *text, size_t len, bool has_escapes, char *out);

#endif
