/*
 * Advice about who may log in: names in settings that no user has, logins without a
 * proof, secrets that other accounts can read.
 */
#ifndef TOOLS_ADVICE_ACCESS_H
#define TOOLS_ADVICE_ACCESS_H

#include "tools/overview.h"

void advice_access_look(struct advice *a);

#endif
