/*
 * The helper threads of a site (auth/workers.h), and how their results reach the loop.
 */
#ifndef SESSION_HELPERS_H
#define SESSION_HELPERS_H

#include "session/site.h"

/* -1 and err: no descriptor or no thread is to be had. */
int helpers_init(struct site *site, struct err *err);
/* The threads end; jobs that wait are dropped. */
void helpers_done(struct site *site);

#endif
