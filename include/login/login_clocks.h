/*
 * When a login has taken too long (protocol.md 15): client_login_timeout at every
 * stage, query_wait_timeout and query_timeout while it waits for a server.
 */
#ifndef LOGIN_LOGIN_CLOCKS_H
#define LOGIN_LOGIN_CLOCKS_H

#include "session/client.h"

/* Sets the deadline of a client that waits for the pool's login parameters, from the
 * limits of logins and of queues. */
void login_clocks_arm_params(struct client *client);
/* Sets the deadline of a client that waits for auth_query, from the limits of logins
 * and of queues. */
void login_clocks_arm_lookup(struct client *client);

/* The login is complete: counts it, and measures how long it took. */
void login_clocks_measure(const struct client *client);

/* Members of the login's conn_ops: the deadline has passed. */
void login_clocks_expired(struct conn *conn);
/* Sets the deadline anew after a reload, or when the login has come to another stage.
 */
void login_clocks_review(struct conn *conn);

#endif
