/*
 * The admin pseudo-database: reads console commands, checks rights, carries them out.
 */
#ifndef ADMIN_CONSOLE_H
#define ADMIN_CONSOLE_H

#include "session/site.h"

/* The service of the database `pgbouncer`.  The owner of the process over the unix
 * socket logs in without may_login being asked, and gets is_admin from the login. */
extern const struct service console_service;

#endif
