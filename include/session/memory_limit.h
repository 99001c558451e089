/*
 * Says when the process uses so much memory that it takes no new work (memory_limit).
 * Who is served goes on.  What the kernel counts as resident is looked at when somebody
 * wants to begin something, at most every few milliseconds, so that it costs nothing at
 * rest and ends by itself.
 */
#ifndef SESSION_MEMORY_LIMIT_H
#define SESSION_MEMORY_LIMIT_H

#include "session/site.h"

/* A message from this length on is new work that may be refused, if it is the first one
 * for which its client would get a server. */
enum { MEMORY_LIMIT_MESSAGE = 64 * 1024 };

/* One for all workers (workers.h), or that of the only site. */
struct memory_limit;

struct memory_limit *memory_limit_new(void);
void memory_limit_free(struct memory_limit **m);

/* Is new work to be refused now?  Logs when that begins and ends. */
bool memory_limit_check(const struct site *site);
/* The same, and counts what is refused. */
bool memory_limit_refuses(const struct site *site);
/* What was seen last, in bytes, and how often something was refused. */
uint64_t memory_limit_resident(const struct site *site);
uint64_t memory_limit_refused(const struct site *site);

#endif
