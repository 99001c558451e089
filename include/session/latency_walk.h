/*
 * How long things took, over all workers: what views and metrics show of it.
 */
#ifndef SESSION_LATENCY_WALK_H
#define SESSION_LATENCY_WALK_H

#include "pool/latency.h"
#include "session/site.h"

/* The pools of one database and user of all sites together. */
struct latency_totals {
	const char *database, *user;
	/* NULL where nothing was counted; recent: see pool/latency.h */
	struct histogram *total[LATENCY_KINDS], *recent[LATENCY_KINDS];
};

typedef void latency_walk_fn(void *ctx, const struct latency_totals *totals);

/* On the control thread: calls fn for each database and user that anything was counted
 * for, ordered by their names; what it is given lasts as long as the call.  Returns how
 * many workers did not answer, whose figures are missing. */
unsigned latency_walk(struct site *site, latency_walk_fn *fn, void *ctx);

#endif
