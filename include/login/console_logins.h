/*
 * Logins of the console that are not complete.  The console is exempt from
 * max_client_conn, so that the administrator always gets in; clients that have not
 * proven who they are have only some room beyond it.
 */
#ifndef LOGIN_CONSOLE_LOGINS_H
#define LOGIN_CONSOLE_LOGINS_H

#include <stdbool.h>

#include "session/site.h"

struct login;

/* The most that may be incomplete beyond max_client_conn. */
enum { CONSOLE_LOGINS_MOST = 100 };

/* A login of the console begins.  is_full: there are more clients than max_client_conn.
 * If there are too many then, closes the oldest one that does not wait for the pooler,
 * which may be the new one. */
void console_logins_add(struct login *login, bool is_full);
/* The login ends; it need not be one of the console. */
void console_logins_remove(struct login *login);

#endif
