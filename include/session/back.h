/*
 * What a server says that is linked to a client: the other half of the relay.
 */
#ifndef SESSION_BACK_H
#define SESSION_BACK_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"

/* Of a linked server. */
extern const struct conn_ops back_ops;

/* Part of a message that the server gets is still to come. */
bool client_is_within_message(const struct client *client);
/* Nothing more is owed, or what the client waits for has come: see whether it is all.
 */
enum step back_ready(struct server *server, struct client *client);
/* Ask the server how much of what was sent a COPY that failed had eaten, if that is in
 * doubt. */
void back_ask(struct server *server, struct client *client);
/* Both go their ways; what one had to wait for because of the other is over. */
void back_unlink(struct client *client, struct server *server);

#endif
