/*
 * How TLS with a server begins, before anything else is said to it (protocol.md 17;
 * PostgreSQL "SSL Session Encryption"): for connections that log in, and for those that
 * carry a cancel request.
 */
#ifndef SESSION_SERVER_TLS_H
#define SESSION_SERVER_TLS_H

#include "conf/config.h"
#include "session/conn.h"

enum tls_begin {
	TLS_BEGIN_CLEAR,   /* there is no TLS here: go on in clear */
	TLS_BEGIN_ASKED,   /* its answer comes as raw bytes: server_tls_answer */
	TLS_BEGIN_STARTED, /* ops->secured or ops->ended follows */
	TLS_BEGIN_REFUSED, /* *reason says why there can be no connection */
};

/* The connection stands.  host is the name that a certificate must have, as it was
 * configured; db is the database that the connection is for. */
enum tls_begin server_tls_begin(struct conn *conn, const char *host,
    const struct database_config *db, const char **reason);
/* What the server says to being asked. */
enum tls_begin server_tls_answer(struct conn *conn, const char *host,
    const struct database_config *db, const uint8_t *p, size_t len,
    const char **reason);

#endif
