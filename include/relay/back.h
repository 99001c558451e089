/*
 * What a server says that is linked to a client: the other half of the relay.
 */
#ifndef RELAY_BACK_H
#define RELAY_BACK_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"

/* Of a linked server. */
extern const struct conn_ops back_ops;

/* Nothing more is owed, or what the client waits for has come: see whether it is all.
 */
enum step back_ready(struct server *server, struct client *client);
/* Ask the server how much of what was sent a COPY that failed had eaten, if that is in
 * doubt. */
void back_ask(struct server *server, struct client *client);

#endif
