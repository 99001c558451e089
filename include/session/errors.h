/*
 * Every error we tell a client ourselves, from one table.
 */
#ifndef SESSION_ERRORS_H
#define SESSION_ERRORS_H

#include <stdio.h>

enum error_id {
#define ERROR_ROW(id, sqlstate, text, help) ERROR_##id,
#include "session/errors.def"
#undef ERROR_ROW
	ERROR_COUNT
};

const char *error_sqlstate(enum error_id id);
/* printf format. */
const char *error_text(enum error_id id);

/* Print the table as "md".  -1 for another format. */
int errors_describe(FILE *out, const char *as);

#endif
