/*
 * Finds the names of parameters with a dot (app.user_id) that an SQL text sets.  No
 * view of PostgreSQL lists those that nobody has defined, so the server can only be
 * asked for their values by name.
 */
#ifndef WIRE_SETTING_NAMES_H
#define WIRE_SETTING_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* What else a text has. */
struct setting_names {
	size_t count;    /* how many names were found */
	bool has_params; /* a name is a parameter of the statement */
	bool is_unknown; /* a name is an expression, or cannot be asked for */
};

/* Looks for SET and set_config() everywhere, in strings and comments, too, because a
 * string may be the body of a DO.  Appends the names in lower case, each with its
 * NUL. */
struct setting_names setting_names_of_text(
    const char *text, size_t len, struct buf *names);
/* Appends the values of a whole Bind that may be such names.  False: one of them cannot
 * be asked for. */
bool setting_names_of_bind(const uint8_t *bind, size_t size, struct buf *names);

#endif
