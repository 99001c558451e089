/*
 * Writes texts as JSON strings.  A string never contains a line break.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stddef.h>

#include "base/buf.h"

/* Appends the text in quotation marks.  Bytes that are not valid UTF-8 become U+FFFD.
 * The text is cut after the last whole character that fits into `most` bytes between
 * the quotation marks. */
void json_put_text(struct buf *b, const char *text, size_t most);

#endif
