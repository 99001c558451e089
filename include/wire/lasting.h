/*
 * Whether PostgreSQL makes the same statement of a text each time that it parses it, as
 * long as the schema and the parameters of its reading stay (see vars_reading).
 */
#ifndef WIRE_LASTING_H
#define WIRE_LASTING_H

#include <stdbool.h>
#include <stddef.h>

/* Does the text begin with SELECT, INSERT, UPDATE, DELETE, MERGE, VALUES, TABLE or
 * WITH, and is there nothing in it that Parse reads and that may change, or that it
 * reports?  Not with strings that stand for a time ('now'), that are written with
 * backslashes or in parts (which could hide such a word), names of objects as constants
 * (::regproc; PostgreSQL itself follows
 * ::regclass), and names so long that PostgreSQL tells that it cuts them. */
bool lasting_is_text(const char *text, size_t len);

#endif
