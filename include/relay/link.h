/*
 * Begins and ends the link between one client and one server, and lets the client
 * continue after it had to wait.  struct link is in session/server.h.
 */
#ifndef RELAY_LINK_H
#define RELAY_LINK_H

#include "session/client.h"
#include "session/server.h"

/* The pool has lent the server to the client: starts the clock of the link, and sets
 * the client's parameters on the server.  True: the client must wait until they are
 * applied. */
bool link_begin(struct client *client, struct server *server);
/* Lets the client continue if what it waits for (enum link_hold) has come, or if the
 * server waits for the client. */
void link_let_go(struct server *server, struct client *client);
/* Begins the link of a pair that was linked in another process: *was has what that
 * process could describe of it. */
void link_restore(struct client *client, struct server *server, const struct link *was);
/* Ends the link: frees everything that it owns, and resumes reading on both sides.  The
 * caller then separates the two in the pool. */
void link_end(struct client *client, struct server *server);

#endif
