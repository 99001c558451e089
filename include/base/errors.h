/*
 * Every error we tell a client ourselves, from one table.
 */
#ifndef BASE_ERRORS_H
#define BASE_ERRORS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

enum error_id {
#define ERROR_ROW(id, ...) ERROR_##id,
#include "base/errors.def"
#undef ERROR_ROW
	ERROR_COUNT
};

/* SQLSTATEs of servers that the pooler acts on, and those it makes up where there is no
 * row: of struct err that no client is told, of TLS, of messages without one. */
#define SQLSTATE_SUCCESS                "00000"
#define SQLSTATE_CONNECTION_FAILURE     "08006"
#define SQLSTATE_PROTOCOL_VIOLATION     "08P01"
#define SQLSTATE_FEATURE_NOT_SUPPORTED  "0A000"
#define SQLSTATE_READ_ONLY_TRANSACTION  "25006"
#define SQLSTATE_INVALID_STATEMENT      "26000"
#define SQLSTATE_INSUFFICIENT_PRIVILEGE "42501"
#define SQLSTATE_UNDEFINED_COLUMN       "42703"
#define SQLSTATE_ADMIN_SHUTDOWN         "57P01"
#define SQLSTATE_CRASH_SHUTDOWN         "57P02"
#define SQLSTATE_CANNOT_CONNECT_NOW     "57P03"
#define SQLSTATE_INTERNAL_ERROR         "XX000"

/* "FATAL" or "ERROR", or for a login and a query "ERROR or FATAL". */
const char *error_severity(enum error_id id);
/* "NO_MORE_CONNECTIONS".  Of ERROR_COUNT, which stands for what is no row: "OTHER", and
 * SQLSTATE and text are NULL. */
const char *error_name(enum error_id id);
const char *error_sqlstate(enum error_id id);
/* The setting whose limit was hit, or NULL. */
const char *error_setting(enum error_id id);
/* Why it happens. */
const char *error_cause(enum error_id id);
/* What to do. */
const char *error_remedy(enum error_id id);
/* printf format. */
const char *error_text(enum error_id id);
/* The text with its arguments; cut when it is too long.  Returns out. */
char *error_print(char *out, size_t size, enum error_id id, ...);
char *error_vprint(char *out, size_t size, enum error_id id, va_list ap);

/* What a client is told whose server was closed for this reason: the row of that text,
 * or ERROR_CONNECTION_LOST, whose argument is the reason. */
enum error_id error_of_reason(const char *reason);

/* The row of which this is the text with its arguments: the one that begins with most
 * of it.  ERROR_COUNT: none, a server or a directory said so. */
enum error_id error_of_text(const char *text);

/* Print the table as "md".  -1 for another format. */
int errors_describe(FILE *out, const char *as);

#endif
