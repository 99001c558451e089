/*
 * The service of all databases except the console: forwards messages between a client
 * and a server.
 */
#ifndef RELAY_RELAY_H
#define RELAY_RELAY_H

#include "session/site.h"

/* Makes the part of struct site that belongs to this floor.  Call it after session_init
 * and before the first connection. */
void relay_init(struct site *site);
/* Call it after session_done, when no connection and no helper thread is left that
 * could use it, and before vars_schema_free. */
void relay_done(struct site *site);

extern const struct service relay_service;
extern const struct request_ops relay_request_ops;

#endif
