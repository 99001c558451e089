/*
 * When a login has taken too long (protocol.md 15): client_login_timeout at every
 * stage, query_wait_timeout and query_timeout while it waits for a server.
 */
#ifndef LOGIN_LOGIN_CLOCKS_H
#define LOGIN_LOGIN_CLOCKS_H

#include "session/client.h"

/* The login waits for the pool's first server: the clocks of a queue and of the login
 * run. */
void login_clocks_arm_welcome(struct client *client);
/* The login waits for the answer of auth_query: the clocks of the login and of a queue
 * run. */
void login_clocks_arm_lookup(struct client *client);

/* The login is complete: it is counted, and how long it took. */
void login_clocks_measure(const struct client *client);

/* For conn_ops. */
void login_clocks_expired(struct conn *conn);
/* Settings have changed, or the login has come to another stage. */
void login_clocks_review(struct conn *conn);

#endif
