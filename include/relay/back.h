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

/* True: the pooler's own SET for the client has been unanswered for a while, so the
 * client, which has sent nothing to the server yet, waits for another one now. */
bool back_loosen(struct client *client);

/* Call it when the rest of a message has been passed on, in either direction: does what
 * had to wait for it.  The answer to a message may have come before its rest. */
enum step back_go_on(struct server *server, struct client *client);

#endif
