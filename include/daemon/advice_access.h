/*
 * Advice about who may log in: names in settings that no user has, logins without a
 * proof, secrets that other accounts can read.
 */
#ifndef DAEMON_ADVICE_ACCESS_H
#define DAEMON_ADVICE_ACCESS_H

#include "daemon/advice_given.h"

void advice_access_look(struct advice *a);

#endif
