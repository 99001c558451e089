/*
 * Advice about who may come in: names that nobody has, logins without proof, secrets
 * that others can read.
 */
#ifndef DAEMON_ADVICE_ACCESS_H
#define DAEMON_ADVICE_ACCESS_H

#include "daemon/advice_given.h"

void advice_access_look(struct advice *a);

#endif
