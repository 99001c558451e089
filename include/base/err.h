/*
 * One error: a text for people, and the SQLSTATE that a client gets with it.  The
 * function that notices an error fills struct err; the function that decides what to do
 * about it prints it.  So an error is either logged or returned, never both.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>

#include "base/errors.h"

struct err {
	char sqlstate[6];
	char text[2042]; /* room for the paths of nested include files */
};

/* Fill e (which may be NULL) with a printf text and SQLSTATE 08P01.  Returns -1, for
 * use as `return err_set(err, ...)`.  A text that is too long is cut. */
int err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Like err_set, with the text and SQLSTATE of a row of errors.def.  Use it for errors
 * that a client may see. */
int err_set_row(struct err *e, enum error_id id, ...);

/* Put a printf text in front of what e already says: "file:3: " + text. */
int err_prefix(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
