/*
 * Opens server connections: chooses the host, looks up its name, connects and logs in
 * (protocol.md 8).
 */
#ifndef BROKER_DIAL_H
#define BROKER_DIAL_H

#include <stdbool.h>

#include "session/server.h"

struct client;

void dial_init(struct site *site);
/* Opens a connection for the pool.  server_events report the result. */
void dial_server(struct site *site, struct pool *pool);
/* Opens a connection for this replication client only.  It is linked to the server from
 * now on, and refused if the attempt fails. */
void dial_replica(struct site *site, struct pool *pool, struct client *client);
/* Opens a connection to the address of `target` without logging in; ops->connected is
 * called when it is connected.  Its slot counts as SLOT_ACTIVE_CANCEL.  NULL: it failed
 * at once, which has been logged.  *is_full: only for the moment, because the queue of
 * that unix socket is full. */
struct server *dial_beside(
    struct server *target, const struct conn_ops *ops, bool *is_full);
/* The ParameterStatus messages of untracked parameters from the login; valid inside
 * server_events->logged_in. */
struct buf *dial_untracked(struct server *server);

#endif
