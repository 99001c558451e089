/*
 * One error: what went wrong, in words for a person, and the SQLSTATE under which
 * a client would be told.  Filled by whoever notices, printed by whoever decides;
 * it is logged or handed on, never both.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>

struct err {
	char sqlstate[6];
	char text[506];
};

/* Fill e (which may be NULL) with a printf text and SQLSTATE 08P01.  Returns -1, so
 * that `return err_set(err, ...)` reads as what it is.  Text too long is cut. */
int err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same with a SQLSTATE of five characters. */
int err_set_code(struct err *e, const char *sqlstate, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put a printf text in front of what e already says: "file:3: " + text. */
int err_prefix(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
