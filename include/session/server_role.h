/*
 * The role that a server reports of itself.
 */
#ifndef SESSION_SERVER_ROLE_H
#define SESSION_SERVER_ROLE_H

#include "pool/hosts.h"
#include "session/server.h"

/* What the server tells, with these of its parameters; HOST_ROLE_UNKNOWN: nothing,
 * because servers report in_hot_standby since PostgreSQL 14. */
void server_role_read(
    const struct server *server, const struct vars *vars, struct host_report *out);
/* The pool learns what these parameters tell. */
void server_role_follow(struct server *server, const struct vars *vars);
/* An error of the server that a server in the role that is asked for does not make:
 * 25006, the transaction is read-only. */
void server_role_doubt(struct server *server, const struct message *m);
/* Does an error have to be whole, so that it can be looked at for that? */
bool server_role_wants_whole(const struct server *server, const struct message *m);

#endif
