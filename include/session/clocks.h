/*
 * The clocks of clients after their login and of the servers linked to them
 * (protocol.md 15).
 */
#ifndef SESSION_CLOCKS_H
#define SESSION_CLOCKS_H

#include "session/client.h"
#include "session/server.h"

/* The client holds no server and asks for none: client_idle_timeout. */
void clocks_arm_rest(struct client *client);
/* It waits for a server: query_wait_timeout, query_timeout, query_wait_notify. */
void clocks_arm_wait(struct client *client);
/* A query or transaction runs, or a transaction rests: on the server's clock. */
void clocks_arm_query(struct server *server, const struct client *client);

/* For conn_ops. */
void clocks_client_expired(struct conn *conn);
void clocks_server_expired(struct conn *conn);
/* Settings have changed: look at the clocks that run for this client. */
void clocks_review(struct conn *conn);

#endif
