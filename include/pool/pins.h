/*
 * Servers that stay with their client after its transaction, because the client has
 * left something there (session_state=keep).  How many of a pool may be pinned counts
 * over all workers.
 */
#ifndef POOL_PINS_H
#define POOL_PINS_H

#include "pool/pool.h"

/* How many servers of the pool may be pinned: max_pinned_servers, but at least one goes
 * round.  A pool is as large as its size and the limits that pools share allow, and
 * under each of these at least one goes round, too. */
int pins_most(const struct pool *pool);
/* How many are, at all workers. */
int pins_count(const struct pool *pool);
/* One more is pinned, unless it is already.  False: there are too many. */
bool pins_claim(struct slot *slot);
/* As pins_claim for a server that was pinned in another process or at another worker,
 * whatever the limit is. */
void pins_restore(struct slot *slot);
/* It is not pinned any more.  The end of its link does this, too. */
void pins_drop(struct slot *slot);

#endif
