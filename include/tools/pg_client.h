/*
 * Connects as a client to a PostgreSQL server, or to the console of a pooler, and runs
 * queries.  Used by --make-userlist and `top`.
 */
#ifndef TOOLS_PG_CLIENT_H
#define TOOLS_PG_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/loop.h"
#include "wire/codec.h"

enum { PG_CLIENT_COLUMNS = 128 };

/* Values are borrowed until the function returns; NULL: SQL's NULL. */
struct pg_client_row {
	size_t count;
	const uint8_t *values[PG_CLIENT_COLUMNS];
	size_t lens[PG_CLIENT_COLUMNS];
};

struct pg_client_ops {
	/* A row of the answer.  -1: it is not as expected; the connection is closed. */
	int (*row)(void *ctx, const struct pg_client_row *row);
	/* The names of the columns, before the first row.  May be NULL. */
	int (*columns)(void *ctx, const struct pg_client_row *names);
	/* An error of the server.  0: further queries may be sent; -1 and err: give up.
	 */
	int (*error)(void *ctx, const char *user, const struct error_fields *fields,
	    struct err *err);
	/* The server waits for a query: after the login, and after each answer. */
	void (*ready)(void *ctx);
};

enum pg_client_answer {
	PG_CLIENT_DONE,
	PG_CLIENT_PASSWORD_WANTED, /* the server asks for a password, and none was given
				    */
	PG_CLIENT_FAILED,          /* err says why, in one line or several */
};

struct pg_client;

/* entry describes the server like an entry of [databases], with a user.  verbose: logs
 * as with so many -v; 0: logs nothing.  ctx and err are borrowed until pg_client_free.
 * NULL and err: it failed. */
struct pg_client *pg_client_new(const char *entry, int verbose,
    const struct pg_client_ops *ops, void *ctx, struct err *err);
/* Connects and runs the loop until pg_client_end is called or the connection ends. */
enum pg_client_answer pg_client_run(struct pg_client *pg_client);
/* Connects, sends one query, and ends after its answer; ops->ready is not called.  The
 * rest is as with the functions above. */
enum pg_client_answer pg_client_query(const char *entry, int verbose,
    const struct pg_client_ops *ops, void *ctx, const char *sql, struct err *err);
/* Sends a query; call it when ops->ready has been called. */
void pg_client_ask(struct pg_client *pg_client, const char *sql);
void pg_client_end(struct pg_client *pg_client);
struct loop *pg_client_loop(struct pg_client *pg_client);
void pg_client_free(struct pg_client **pg_client);

#endif
