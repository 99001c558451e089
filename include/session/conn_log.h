/*
 * Lines of the log about one connection.
 *
 * A plain line begins with a tag ("C-0x...: db/user@host:port").  In JSON the parts of
 * the tag are members: side (client or server), id and ptr as in the views, database,
 * user (or peer), address, port, and for a unix socket peer_pid.
 */
#ifndef SESSION_CONN_LOG_H
#define SESSION_CONN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

struct conn;
struct conn_ops;
struct err;

/* The names in log lines about a connection; texts are borrowed. */
struct conn_name {
	const char *database, *user; /* NULL: not known */
	int peer;                    /* the id of the peer that it leads to; 0: none */
};

/* Logs a line about the connection.  what: a level, or-ed with a kind. */
void conn_log(const struct conn *conn, unsigned what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Logs a line with further fields after the message. */
void conn_log_fields(const struct conn *conn, unsigned what,
    const struct log_fields *fields, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* What log_word returns; in JSON, the name itself. */
const char *conn_log_word(
    const struct conn *conn, char out[LOG_WORD], const char *name);

/* Logs why the connection closes.  Tools expect this line before all others about the
 * end. */
void conn_log_end(const struct conn *conn);

/* Logs a failure of TLS behind the handshake.  err: of ops->ended.  False: the peer or
 * the network has ended the connection. */
bool conn_log_tls_failure(const struct conn *conn, const struct err *err);

/* ---- lines of LEVEL_DEBUG and below ---- */

void conn_log_phase(const struct conn *conn, const struct conn_ops *next);
/* Log type and size of a message, never its content.  type 0: a startup packet. */
void conn_log_received(const struct conn *conn, uint8_t type, uint64_t size);
void conn_log_sending(const struct conn *conn, size_t len);

#endif
