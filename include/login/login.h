/*
 * Proves who a client is: chooses the method, runs the exchange, waits for the pool's
 * welcome, hands the client to its database's service (protocol.md 3, 4, 6).
 */
#ifndef LOGIN_LOGIN_H
#define LOGIN_LOGIN_H

#include "session/client.h"

void login_init(struct site *site);
/* A whole StartupMessage has come: the login takes the client over. */
enum step login_begin(struct client *client, const struct message *m);
/* The name the client asked to log in as; until its login is complete. */
const char *login_user_name(const struct client *client);

/* Does the client's login wait for the pooler?  It does not when the client has to send
 * the next message, or has not sent its StartupMessage. */
bool login_is_at_work(const struct client *client);

#endif
