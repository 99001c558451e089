/*
 * Texts as JSON has them, in one line whatever they hold.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stddef.h>

#include "base/buf.h"

/* The text with quotes around it.  Bytes that are no UTF-8 become U+FFFD.  What does
 * not fit into `most` bytes between the quotes is left out, from a whole character on.
 */
void json_put_text(struct buf *b, const char *text, size_t most);

#endif
