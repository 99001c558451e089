/*
 * How TLS with a server begins, before anything else is sent (protocol.md 17;
 * PostgreSQL "SSL Session Encryption").  Used for connections that log in and for those
 * that carry a cancel request.
 */
#ifndef BROKER_SERVER_TLS_H
#define BROKER_SERVER_TLS_H

#include "conf/config.h"
#include "session/conn.h"

enum tls_begin {
	TLS_BEGIN_CLEAR, /* continue without TLS */
	TLS_BEGIN_ASKED, /* an SSLRequest was sent; pass the raw bytes of its answer to
			    server_tls_answer */
	TLS_BEGIN_STARTED, /* ops->secured or ops->ended follows */
	TLS_BEGIN_REFUSED, /* *reason says why there can be no connection */
};

/* Call it when conn is connected.  host is the server's name as it was configured: with
 * verify-full its certificate must have this name.  db is the database that the
 * connection is for.  *reason is a literal; it counts only after TLS_BEGIN_REFUSED. */
enum tls_begin server_tls_begin(struct conn *conn, const char *host,
    const struct database_config *db, const char **reason);
/* The server's answer to the SSLRequest that followed TLS_BEGIN_ASKED: len bytes, at
 * least one.  Returns all but TLS_BEGIN_ASKED; the rest is as above. */
enum tls_begin server_tls_answer(struct conn *conn, const char *host,
    const struct database_config *db, const uint8_t *p, size_t len,
    const char **reason);

#endif
