/*
 * What the login floor needs before the first connection.
 */
#ifndef LOGIN_LOGIN_FLOOR_H
#define LOGIN_LOGIN_FLOOR_H

#include "session/site.h"

/* Call it after session_init. */
void login_floor_init(struct site *site);
/* Call it after session_done, which ends the helper threads and frees the connections.
 */
void login_floor_done(struct site *site);

#endif
