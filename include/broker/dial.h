/*
 * Opens server connections: host, name lookup, connect, log in (protocol.md 8).
 */
#ifndef BROKER_DIAL_H
#define BROKER_DIAL_H

#include <stdbool.h>

#include "session/server.h"

struct client;

void dial_init(struct site *site);
/* Open a connection for the pool; what becomes of it is told by server_events. */
void dial_server(struct site *site, struct pool *pool);
/* The same for this replication client alone: it is linked from now on, and refused
 * when the attempt fails. */
void dial_replica(struct site *site, struct pool *pool, struct client *client);
/* Open a connection to the very address of `target` without logging in: connected is
 * called when it stands; the seat is counted as SEAT_ACTIVE_CANCEL.  NULL: failed at
 * once (logged); *is_full: only for now, for too many are waiting at that unix socket.
 */
struct server *dial_beside(
    struct server *target, const struct conn_ops *ops, bool *is_full);
/* ParameterStatus messages of untracked parameters seen during login; valid inside
 * server_events->logged_in. */
struct buf *dial_untracked(struct server *server);

#endif
