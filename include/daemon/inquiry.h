/*
 * Queries that this program asks a server, or the console of a pooler, over a
 * connection of its own kind.
 */
#ifndef DAEMON_INQUIRY_H
#define DAEMON_INQUIRY_H

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
	/* -1: not what was asked for; the connection is closed. */
	int (*row)(void *ctx, const struct inquiry_row *row);
	/* Their names, before the first row; may be NULL. */
	int (*columns)(void *ctx, const struct inquiry_row *names);
	/* 0: what is asked next may go better; -1 and err: it is of no use. */
	int (*error)(void *ctx, const char *user, const struct error_fields *fields,
	    struct err *err);
	/* The server waits for a query: after the login, and after each answer. */
	void (*ready)(void *ctx);
};

enum inquiry_answer {
	INQUIRY_DONE,
	INQUIRY_PASSWORD_WANTED, /* the server asks for one, and there is none */
	INQUIRY_FAILED,          /* err says why, in one line or several */
};

struct inquiry;

/* A server is described as an entry of [databases] is, with a user.  verbose: log as
 * with so many -v; 0: nothing is logged.  ctx and err are borrowed until the end.  NULL
 * and err. */
struct inquiry *inquiry_new(const char *entry, int verbose,
    const struct inquiry_ops *ops, void *ctx, struct err *err);
/* Connects, and returns when inquiry_end was called, or with the connection's end. */
enum inquiry_answer inquiry_run(struct inquiry *inquiry);
/* When it is ready. */
void inquiry_ask(struct inquiry *inquiry, const char *sql);
void inquiry_end(struct inquiry *inquiry);
struct loop *inquiry_loop(struct inquiry *inquiry);
void inquiry_free(struct inquiry **inquiry);

#endif
