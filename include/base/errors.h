/*
 * Every error that the pooler itself sends to clients, as one table (errors.def).
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

/* SQLSTATEs from servers that the pooler reacts to, and SQLSTATEs for errors that have
 * no row in errors.def: those no client sees, those of TLS, and those without a
 * message. */
#define SQLSTATE_SUCCESS                "00000"
#define SQLSTATE_WARNING                "01000"
#define SQLSTATE_CONNECTION_FAILURE     "08006"
#define SQLSTATE_PROTOCOL_VIOLATION     "08P01"
#define SQLSTATE_FEATURE_NOT_SUPPORTED  "0A000"
#define SQLSTATE_NOT_IN_REPERTOIRE      "22021"
#define SQLSTATE_UNTRANSLATABLE         "22P05"
#define SQLSTATE_READ_ONLY_TRANSACTION  "25006"
#define SQLSTATE_INVALID_STATEMENT      "26000"
#define SQLSTATE_INVALID_AUTHORIZATION  "28000"
#define SQLSTATE_INVALID_PASSWORD       "28P01"
#define SQLSTATE_INSUFFICIENT_PRIVILEGE "42501"
#define SQLSTATE_UNDEFINED_FUNCTION     "42883"
#define SQLSTATE_UNDEFINED_COLUMN       "42703"
#define SQLSTATE_ADMIN_SHUTDOWN         "57P01"
#define SQLSTATE_CRASH_SHUTDOWN         "57P02"
#define SQLSTATE_CANNOT_CONNECT_NOW     "57P03"
#define SQLSTATE_INTERNAL_ERROR         "XX000"

/* Returns the name of the row, such as "NO_MORE_CONNECTIONS".  ERROR_COUNT stands for
 * errors that are not in the table: its name is "OTHER", its SQLSTATE and text are
 * NULL. */
const char *error_name(enum error_id id);
const char *error_sqlstate(enum error_id id);
/* The setting whose limit was reached, or NULL. */
const char *error_setting(enum error_id id);
/* What to do about the error, in whole sentences. */
const char *error_remedy(enum error_id id);
/* The printf format of the message. */
const char *error_text(enum error_id id);
/* Prints the message with its arguments into out and cuts it when it is too long.
 * Returns out. */
char *error_print(char *out, size_t size, enum error_id id, ...);
char *error_vprint(char *out, size_t size, enum error_id id, va_list ap);

/* Returns the row for a client whose server connection was closed for this reason: the
 * row whose text is the reason, or else ERROR_CONNECTION_LOST, which takes the reason
 * as its argument. */
enum error_id error_of_reason(const char *reason);

/* Returns the row that a message was printed from.  When several rows fit, the one with
 * the longest fixed beginning counts.  ERROR_COUNT: no row fits, so the message came
 * from a server or an LDAP directory. */
enum error_id error_of_text(const char *text);

#endif
