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

/* Call it when nothing more is owed, or when what the client waits for has come: gives
 * the server back if the client does not need it any more. */
enum step back_ready(struct server *server, struct client *client);
/* Asks the server, if it is not certain, how many of the messages that were sent
 * belonged to a COPY that has failed. */
void back_ask(struct server *server, struct client *client);

#endif
