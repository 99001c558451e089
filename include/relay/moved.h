/*
 * Clients of the relay, and the servers that they are linked to, on their way to
 * another process (see moving/moving.h): what only the relay knows of them.
 */
#ifndef RELAY_MOVED_H
#define RELAY_MOVED_H

#include "session/client.h"
#include "session/server.h"

/* For struct service_moves. */
bool moved_is_possible(const struct client *client);
void moved_describe(const struct client *client, struct parcel_client *out,
    struct parcel_server *server);
void moved_let_go(struct client *client);

/* The client came from there, and so did its server (NULL: it has none); both have
 * their owners already.  -1: no memory, or such a pair never was. */
int moved_take(struct client *client, struct server *server,
    const struct parcel_client *from, const struct parcel_server *from_server);

#endif
