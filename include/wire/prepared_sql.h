/*
 * PREPARE, EXECUTE and DEALLOCATE as the first word of a query.  PostgreSQL's manual,
 * "Identifiers and Key Words" and the three commands.
 */
#ifndef WIRE_PREPARED_SQL_H
#define WIRE_PREPARED_SQL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum prepared_sql_kind {
	PREPARED_SQL_NONE, /* something else, or more than one statement */
	PREPARED_SQL_PREPARE,
	PREPARED_SQL_EXECUTE,
	PREPARED_SQL_DEALLOCATE,
	PREPARED_SQL_DEALLOCATE_ALL,
};

enum { PREPARED_SQL_NAME = 64 };

struct prepared_sql {
	enum prepared_sql_kind kind;
	size_t from, to;              /* of the name as it is written */
	size_t end;                   /* of the statement, before its semicolon */
	char name[PREPARED_SQL_NAME]; /* folded and cut as PostgreSQL does (of ASCII) */
};

/* Looks at the first word and, if it is one of the three, for the name and the end of
 * the statement.  U&"names" are not known. */
void prepared_sql_look(const char *text, size_t len, struct prepared_sql *sql);
/* Is the first word one of the three, as far as can be seen? */
bool prepared_sql_begins(const char *text, size_t len);
/* Characters of a text in UTF-8. */
size_t prepared_sql_characters(const char *text, size_t len);

/* An error's position in a query that is not as the client wrote it; in characters. */
struct prepared_sql_move {
	size_t before; /* so many stand before the client's text: no position there */
	size_t name;   /* so many before the name in the client's text */
	long longer;   /* by how much the name was made longer */
};
/* The body of an ErrorResponse with its position moved. */
void prepared_sql_put_error(const uint8_t *body, size_t len,
    const struct prepared_sql_move *move, struct buf *out);

#endif
