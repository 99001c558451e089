/*
 * The durations that views and metrics show, added up over all workers.
 */
#ifndef SESSION_LATENCY_WALK_H
#define SESSION_LATENCY_WALK_H

#include "pool/latency.h"
#include "session/site.h"

/* The histograms of one database and user, of the pools of all sites together. */
struct latency_totals {
	const char *database, *user;
	/* NULL where nothing was counted; recent: see pool/latency.h */
	struct histogram *total[LATENCY_KINDS], *recent[LATENCY_KINDS];
};

typedef void latency_walk_fn(void *ctx, const struct latency_totals *totals);

/* Calls fn for each database and user with any counts, ordered by their names; totals
 * are valid during the call only.  Call it on the control thread.  Returns how many
 * workers did not answer; their counts are missing. */
unsigned latency_walk(struct site *site, latency_walk_fn *fn, void *ctx);

#endif
