/*
 * How TLS with a server begins, before anything else is said to it (protocol.md 17;
 * PostgreSQL "SSL Session Encryption"): for connections that log in, and for those that
 * carry a cancel request.
 */
#ifndef SESSION_SERVER_TLS_H
#define SESSION_SERVER_TLS_H

#include "session/server.h"

enum tls_begin {
	TLS_BEGIN_CLEAR,   /* there is no TLS here: go on in clear */
	TLS_BEGIN_ASKED,   /* its answer comes as raw bytes: server_tls_answer */
	TLS_BEGIN_STARTED, /* ops->secured or ops->ended follows */
	TLS_BEGIN_REFUSED, /* *reason says why there can be no connection */
};

/* The connection stands; db is the database that it is for. */
enum tls_begin server_tls_begin(
    struct server *server, const struct database_config *db, const char **reason);
/* What the server says to being asked. */
enum tls_begin server_tls_answer(struct server *server,
    const struct database_config *db, const uint8_t *p, size_t len,
    const char **reason);

#endif
