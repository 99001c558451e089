/*
 * The beginning and the end of a link between one client and one server, and what the
 * client's next messages wait for in between.  struct link stands in session/server.h.
 */
#ifndef RELAY_LINK_H
#define RELAY_LINK_H

#include "session/client.h"
#include "session/server.h"

/* The pool has lent the server to the client: its clock runs from now on, and the
 * server is brought to the client's parameters.  True: the client must wait until they
 * are applied. */
bool link_begin(struct client *client, struct server *server);
/* The client goes on if what it waits for (enum link_hold) has come, or if the server
 * waits for the client. */
void link_let_go(struct server *server, struct client *client);
/* The same for a pair that was linked in another process: *was is what can be told of
 * its link. */
void link_restore(struct client *client, struct server *server, const struct link *was);
/* The two part: all that the link owns is released, and whoever waits because of the
 * other goes on.  The server still has its client, which the pool takes from it next.
 */
void link_end(struct client *client, struct server *server);

#endif
