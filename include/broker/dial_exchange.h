/*
 * The exchange of a login to PostgreSQL, from the connect until the server is ready for
 * queries (protocol.md 8).  dial_attempt.h says who can own an attempt.
 */
#ifndef BROKER_DIAL_EXCHANGE_H
#define BROKER_DIAL_EXCHANGE_H

#include "broker/dial_attempt.h"
#include "session/conn.h"
#include "session/server.h"

/* A new server connection, which does not connect yet. */
struct server *dial_new(struct site *site, const struct dial_owner *owner);
/* Where it will connect to.  host NULL: the Unix socket in unix_socket_dir. */
void dial_aim(struct server *server, const char *host, int port);
/* Begins; the owner's functions follow. */
void dial_go(struct server *server);
/* A message that has no place in a login: the attempt has failed. */
enum step dial_unknown(struct server *server, const struct message *m);

#endif
