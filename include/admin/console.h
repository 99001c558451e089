/*
 * The admin console: reads commands, checks rights and runs the commands.
 */
#ifndef ADMIN_CONSOLE_H
#define ADMIN_CONSOLE_H

#include "session/site.h"

/* The service of the database `pgbouncer`.  For the process's own account on the unix
 * socket, the login sets client->is_admin and does not call admit. */
extern const struct service console_service;

#endif
