/*
 * Describes clients of the relay, and the servers that they are linked to, for a move
 * to another process (handoff/handoff.h), and restores them there; and what clients at
 * rest have of their thread, when they go to another site of this process.
 */
#ifndef RELAY_RELAY_HANDOFF_H
#define RELAY_RELAY_HANDOFF_H

#include "session/client.h"
#include "session/server.h"

/* See struct service_moves in session/site.h. */
bool relay_handoff_is_possible(const struct client *client);
void relay_handoff_describe(const struct client *client, struct record_client *out,
    struct record_server *server);
void relay_handoff_let_go(struct client *client);
void *relay_handoff_pack(struct client *client);
void relay_handoff_unpack(struct client *client, void *packed);

/* Restores a client that has come from another process, and its server (NULL: it has
 * none); both have their conn_ops already.  -1: no memory, or the description is not
 * valid. */
int relay_handoff_take(struct client *client, struct server *server,
    const struct record_client *from, const struct record_server *from_server);

#endif
