/*
 * The part of struct site that belongs to the login floor.
 */
#ifndef LOGIN_LOGIN_FLOOR_H
#define LOGIN_LOGIN_FLOOR_H

#include "session/site.h"

/* Call it after session_init and before the first connection. */
void login_floor_init(struct site *site);
/* Frees what login_floor_init made.  Call it after session_done, when no connection and
 * no helper thread is left that could use it. */
void login_floor_done(struct site *site);

#endif
