/*
 * The server's side of a relay.
 */
#ifndef RELAY_BACK_H
#define RELAY_BACK_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"

/* The phase of a server that is linked to a client. */
extern const struct conn_ops back_ops;

/* To be called when nothing more is owed, or when what the client waits for has come:
 * gives the server back if the client is done with it. */
enum step back_ready(struct server *server, struct client *client);
/* Ask the server how many of the messages that were sent belonged to a COPY that
 * failed, if that is in doubt. */
void back_ask(struct server *server, struct client *client);

#endif
