/*
 * The role (primary or standby) that a server reports of itself.
 */
#ifndef SESSION_SERVER_ROLE_H
#define SESSION_SERVER_ROLE_H

#include "pool/hosts.h"
#include "session/server.h"

/* Writes to out what the server has reported of its role.  Whether its sessions are
 * read-only is read from vars, which need not be the server's present values. out->role
 * is HOST_ROLE_UNKNOWN for servers before PostgreSQL 14, which do not report
 * in_hot_standby. */
void server_role_read(
    const struct server *server, const struct vars *vars, struct host_report *out);
/* The same, and tells the pool.  Does nothing if the role is not known. */
void server_role_follow(struct server *server, const struct vars *vars);
/* Is this whole ParameterStatus about the role? */
bool server_role_is_named(const struct message *m);
/* Call it for an ErrorResponse of the server.  If the database asks for a server that
 * can write, and the error is 25006 (the transaction is read-only), the pool checks the
 * host's role again. */
void server_role_doubt(struct server *server, const struct message *m);
/* Must this message be complete before server_role_doubt can look at it? */
bool server_role_wants_whole(const struct server *server, const struct message *m);

#endif
