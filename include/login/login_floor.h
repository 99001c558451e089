/*
 * What the login floor needs before the first connection.
 */
#ifndef LOGIN_LOGIN_FLOOR_H
#define LOGIN_LOGIN_FLOOR_H

#include "session/site.h"

/* Makes it.  Call it after session_init, and before the first connection. */
void login_floor_init(struct site *site);
/* Frees it.  Call it after session_done: then no connection and no helper thread is
 * left that could use it. */
void login_floor_done(struct site *site);

#endif
