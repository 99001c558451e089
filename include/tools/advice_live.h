/*
 * Advice that needs figures of the pooler that runs with this configuration.
 */
#ifndef TOOLS_ADVICE_LIVE_H
#define TOOLS_ADVICE_LIVE_H

#include "tools/advice_given.h"

/* Asks the console over the Unix socket of the configuration, where the pooler's own
 * account needs no password.  Nothing is said where no such socket is. */
void advice_live_look(struct advice *a);

#endif
