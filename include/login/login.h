/*
 * The login of a client: chooses the method, runs the exchange, waits until the pool
 * knows the parameters to greet the client with (its login parameters), and hands the
 * client to the service of its database, which is the relay or the console (protocol.md
 * 3, 4, 6).
 */
#ifndef LOGIN_LOGIN_H
#define LOGIN_LOGIN_H

#include "session/client.h"

/* Makes the part of struct site that belongs to this floor.  Call it after session_init
 * and before the first connection. */
void login_init(struct site *site);
/* Call it after session_done, when no connection and no helper thread is left that
 * could use it. */
void login_done(struct site *site);
/* The login begins with a whole StartupMessage. */
enum step login_begin(struct client *client, const struct message *m);
/* The name that the client asked to log in as.  Only while its login lasts. */
const char *login_user_name(const struct client *client);

/* Does the client's login wait for the pooler, a server or a helper thread?  False if
 * the client has to send the next message, such as its StartupMessage. */
bool login_is_at_work(const struct client *client);
/* Are there more clients than max_client_conn? */
bool login_is_full(const struct site *site);

#endif
