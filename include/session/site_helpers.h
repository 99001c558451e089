/*
 * The helper threads of a site (auth/helpers.h), and how their results reach the loop.
 */
#ifndef SESSION_SITE_HELPERS_H
#define SESSION_SITE_HELPERS_H

#include "session/site.h"

/* Makes site->helpers; the loop delivers their results.  -1 and err: there is no
 * descriptor or no thread for them. */
int site_helpers_init(struct site *site, struct err *err);
/* Ends the threads, waits for them, and drops the jobs that still wait. */
void site_helpers_done(struct site *site);

#endif
