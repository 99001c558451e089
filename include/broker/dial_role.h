/*
 * The role of a server that is being logged in to: whether it is a standby and whether
 * its sessions are read-only, as it reports by itself (PostgreSQL 14), or as a query
 * tells.
 */
#ifndef BROKER_DIAL_ROLE_H
#define BROKER_DIAL_ROLE_H

#include <stdbool.h>

#include "session/conn.h"
#include "session/server.h"

/* The login is complete.  True: the server has to be asked first, which has been done;
 * an answer to each of its messages is dial_role_answer's until the next ReadyForQuery.
 */
bool dial_role_ask(struct server *server);
/* A message of the answer. */
enum step dial_role_answer(struct server *server, const struct message *m);
/* The pool learns what is known.  False: the server is not one that is asked for, and
 * the attempt has failed. */
bool dial_role_may_stay(struct server *server);

#endif
