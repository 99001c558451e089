/*
 * Describes the value of a limit or timeout that is in force for one client, for the
 * DETAIL of errors.
 */
#ifndef SESSION_LIMITS_H
#define SESSION_LIMITS_H

#include "session/client.h"

enum { LIMIT_TEXT = 640 };

/* Writes to out which value of the setting is in force for this client, as in
 * "max_client_conn is 100": the value of its database or user if they have their own.
 * For max_waiting_clients the text also says how many clients wait for which database
 * and user.  If the client waits for a server, it also says which limit leaves its pool
 * no room, or that no host of its database serves.  Returns out. */
const char *limit_describe(
    const struct client *client, const char *setting, char out[LIMIT_TEXT]);
/* Where the client is told with this text that the login to all of several hosts has
 * failed: how each of them is; or NULL. */
const char *limit_describe_hosts(
    const struct client *client, const char *text, char out[LIMIT_TEXT]);

#endif
