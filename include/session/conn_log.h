/*
 * Lines of the log about one connection.
 *
 * Plain, they begin with a tag ("C-0x...: db/user@host:port"); in JSON its parts are
 * members: side (client or server), id and ptr as in the views, database, user (or
 * peer), address, port, and for a unix socket peer_pid.
 */
#ifndef SESSION_CONN_LOG_H
#define SESSION_CONN_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

struct conn;
struct conn_ops;

/* Whom a connection is about; texts are borrowed. */
struct conn_name {
	const char *database, *user; /* NULL: not known */
	int peer;                    /* it leads to this peer; 0: to none */
};

/* what: a level, or-ed with a kind. */
void conn_log(const struct conn *conn, unsigned what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with fields behind the message. */
void conn_log_fields(const struct conn *conn, unsigned what,
    const struct log_fields *fields, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Why it closes.  The line comes before anything else is said about the end: log
 * parsers know it so. */
void conn_log_end(const struct conn *conn);

/* ---- what it does, for who looks ---- */

void conn_log_phase(const struct conn *conn, const struct conn_ops *next);
/* Never what is in it.  type 0: a startup packet. */
void conn_log_received(const struct conn *conn, uint8_t type, uint64_t size);
void conn_log_sending(const struct conn *conn, size_t len);

#endif
