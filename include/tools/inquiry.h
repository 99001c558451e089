/*
 * Connects as a client to a PostgreSQL server, or to the console of a pooler, and runs
 * queries.  Used by --make-userlist and `top`.
 */
#ifndef TOOLS_INQUIRY_H
#define TOOLS_INQUIRY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/loop.h"
#include "wire/codec.h"

enum { INQUIRY_COLUMNS = 128 };

/* Values are borrowed until the function returns; NULL: SQL's NULL. */
struct inquiry_row {
	size_t count;
	const uint8_t *values[INQUIRY_COLUMNS];
	size_t lens[INQUIRY_COLUMNS];
};

struct inquiry_ops {
	/* A row of the answer.  -1: it is not as expected; the connection is closed. */
	int (*row)(void *ctx, const struct inquiry_row *row);
	/* The names of the columns, before the first row.  May be NULL. */
	int (*columns)(void *ctx, const struct inquiry_row *names);
	/* An error of the server.  0: further queries may be sent; -1 and err: give up.
	 */
	int (*error)(void *ctx, const char *user, const struct error_fields *fields,
	    struct err *err);
	/* The server waits for a query: after the login, and after each answer. */
	void (*ready)(void *ctx);
};

enum inquiry_answer {
	INQUIRY_DONE,
	INQUIRY_PASSWORD_WANTED, /* the server asks for a password, and none was given
				  */
	INQUIRY_FAILED,          /* err says why, in one line or several */
};

struct inquiry;

/* entry describes the server like an entry of [databases], with a user.  verbose: logs
 * as with so many -v; 0: logs nothing.  ctx and err are borrowed until inquiry_free.
 * NULL and err: it failed. */
struct inquiry *inquiry_new(const char *entry, int verbose,
    const struct inquiry_ops *ops, void *ctx, struct err *err);
/* Connects and runs the loop until inquiry_end is called or the connection ends. */
enum inquiry_answer inquiry_run(struct inquiry *inquiry);
/* Sends a query; call it when ops->ready has been called. */
void inquiry_ask(struct inquiry *inquiry, const char *sql);
void inquiry_end(struct inquiry *inquiry);
struct loop *inquiry_loop(struct inquiry *inquiry);
void inquiry_free(struct inquiry **inquiry);

#endif
