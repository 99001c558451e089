/*
 * Clients at rest go from a worker to another one that has less to do: which of them,
 * and a few at a time.  The control thread decides when, how many and where to
 * (daemon/rebalance), and has these functions called on the giver's thread.
 */
#ifndef SESSION_MIGRATE_H
#define SESSION_MIGRATE_H

#include <stddef.h>

struct worker;
struct site;

/* Begins to count which clients of the site get servers, to choose among them. */
void migrate_watch(struct site *site);
/* Picks clients that together have made about `percent` of the assignments since
 * migrate_watch, and ends the counting.  Returns how many. */
size_t migrate_choose_active(struct site *site, unsigned percent);
/* Chooses at most so many clients that rest now, others than at the last call. */
size_t migrate_choose_idle(struct site *site, size_t most);

/* Sends some of those that were chosen and rest now; *gone is how many.  Returns how
 * many of the chosen ones are still here; to be called again a moment later. */
size_t migrate_step(struct site *site, struct worker *to, size_t *gone);
/* Forgets those that were chosen and have not gone.  Also ends a counting. */
void migrate_end(struct site *site);

#endif
