/*
 * The SQL commands PREPARE, EXECUTE and DEALLOCATE: reading the statement's name, and
 * correcting positions in errors.  PostgreSQL documentation: "Identifiers and Key
 * Words" and the pages of the three commands.
 */
#ifndef WIRE_PREPARED_SQL_H
#define WIRE_PREPARED_SQL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "wire/effects.h"

enum { PREPARED_SQL_NAME = 64 };

struct prepared_sql {
	struct command_span span;
	/* in lower case unless quoted, and cut, as PostgreSQL does with ASCII names */
	char name[PREPARED_SQL_NAME];
};

/* Reads the name at the span that effects_of_text found in the text.  The name is empty
 * if the span's kind is COMMAND_NONE. */
void prepared_sql_read(
    const char *text, const struct command_span *span, struct prepared_sql *sql);
/* Returns the number of characters of a text in UTF-8. */
size_t prepared_sql_characters(const char *text, size_t len);

/* How the query that was sent to the server differs from the client's query, so that
 * the position in an error can be corrected.  All in characters. */
struct prepared_sql_move {
	/* number of characters that stand in front of the client's text; a position
	 * there is removed */
	size_t before;
	/* number of characters in front of the name in the client's text */
	size_t name;
	long longer; /* how much longer the name has become */
};
/* Appends the body of an ErrorResponse with its position corrected for the client's
 * text.  If there is no memory, out->failed is set. */
void prepared_sql_put_error(const uint8_t *body, size_t len,
    const struct prepared_sql_move *move, struct buf *out);

#endif
