/*
 * Describes clients of the relay, and the servers that they are linked to, for a move
 * to another process (moving/moving.h), and restores them there.
 */
#ifndef RELAY_MOVED_H
#define RELAY_MOVED_H

#include "session/client.h"
#include "session/server.h"

/* See struct service_moves in session/site.h. */
bool moved_is_possible(const struct client *client);
void moved_describe(const struct client *client, struct parcel_client *out,
    struct parcel_server *server);
void moved_let_go(struct client *client);

/* Restores a client that has come from another process, and its server (NULL: it has
 * none); both have their conn_ops already.  -1: no memory, or the description is not
 * valid. */
int moved_take(struct client *client, struct server *server,
    const struct parcel_client *from, const struct parcel_server *from_server);

#endif
