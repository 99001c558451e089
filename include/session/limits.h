/*
 * Which value of a limit or timeout is in force for one client: for errors that say so.
 */
#ifndef SESSION_LIMITS_H
#define SESSION_LIMITS_H

#include "session/client.h"

enum { LIMIT_TEXT = 640 };

/* "max_client_conn is 100"; where the database or the user of the client have a value
 * of their own, that one.  Of max_waiting_clients also who waits for what.  While the
 * client waits for a server, also which limit leaves its pool no room, if one does, or
 * that no host of its database serves.  Returns out. */
const char *limit_describe(
    const struct client *client, const char *setting, char out[LIMIT_TEXT]);

#endif
