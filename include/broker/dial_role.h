/*
 * Finds out during a login whether the server is a standby and whether its sessions are
 * read-only.  Servers from PostgreSQL 14 on report it; older ones are asked by a query.
 */
#ifndef BROKER_DIAL_ROLE_H
#define BROKER_DIAL_ROLE_H

#include <stdbool.h>

#include "session/conn.h"
#include "session/server.h"

/* Call it when the login is complete.  True: a query for the role has been sent; pass
 * the server's messages to dial_role_answer up to the next ReadyForQuery. */
bool dial_role_ask(struct server *server);
/* Handles a message of the answer. */
enum step dial_role_answer(struct server *server, const struct message *m);
/* Tells the pool the role.  False: the database does not use servers of this role, so
 * the attempt has failed. */
bool dial_role_may_stay(struct server *server);

#endif
