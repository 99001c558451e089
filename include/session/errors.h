/*
 * Every error we tell a client ourselves, from one table.
 */
#ifndef SESSION_ERRORS_H
#define SESSION_ERRORS_H

#include <stdio.h>

enum error_id {
#define ERROR_ROW(id, ...) ERROR_##id,
#include "session/errors.def"
#undef ERROR_ROW
	ERROR_COUNT
};

const char *error_severity(enum error_id id);
const char *error_sqlstate(enum error_id id);
/* The setting whose limit was hit, or NULL. */
const char *error_setting(enum error_id id);
/* What it means and what to do. */
const char *error_help(enum error_id id);
/* printf format. */
const char *error_text(enum error_id id);

/* What a client is told whose server was closed for this reason: the limit of that
 * text, or ERROR_CONNECTION_LOST, whose argument is the reason. */
enum error_id error_of_reason(const char *reason);

/* Print the table as "md".  -1 for another format. */
int errors_describe(FILE *out, const char *as);

#endif
