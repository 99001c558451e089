/*
 * The commands PREPARE, EXECUTE and DEALLOCATE as a client wrote them: the name of the
 * statement, and where errors in them are.  PostgreSQL's manual, "Identifiers and Key
 * Words" and the three commands.
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
	char name[PREPARED_SQL_NAME]; /* folded and cut as PostgreSQL does (of ASCII) */
};

/* Read the name at the span that effects_of_text found in the text.  Its name is empty
 * if the span's kind is COMMAND_NONE. */
void prepared_sql_read(
    const char *text, const struct command_span *span, struct prepared_sql *sql);
/* How many characters a text in UTF-8 has. */
size_t prepared_sql_characters(const char *text, size_t len);

/* How a query that was sent to the server differs from the client's own, so that the
 * position in an error can be corrected.  All in characters. */
struct prepared_sql_move {
	size_t before; /* so many stand before the client's text: no position there */
	size_t name;   /* so many before the name in the client's text */
	long longer;   /* by how much the name was made longer */
};
/* Append the body of an ErrorResponse to out, with its position as it is in the
 * client's text.  If there is no memory, out->failed is set. */
void prepared_sql_put_error(const uint8_t *body, size_t len,
    const struct prepared_sql_move *move, struct buf *out);

#endif
