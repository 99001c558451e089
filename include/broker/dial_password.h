/*
 * The password of a login that a program or a file gives (session/passwords.h), for one
 * attempt.  Does nothing where the settings name none.
 */
#ifndef BROKER_DIAL_PASSWORD_H
#define BROKER_DIAL_PASSWORD_H

#include <stdbool.h>

#include "session/server.h"

/* Calls next when the attempt has its password, perhaps at once, or fails. */
void dial_password_get(struct server *server, void (*next)(struct server *server));
/* May the password be sent as it is?  Not where others could read it. */
bool dial_password_may_be_shown(const struct server *server);
/* The server has answered with this error.  True: another attempt may succeed, because
 * the password is fetched again. */
bool dial_password_refused(struct server *server, const char *sqlstate);
/* The server has let us in. */
void dial_password_accepted(struct server *server);

#endif
