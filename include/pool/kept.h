/*
 * What freed pools have counted.  Counters stay with their database.  If other workers
 * have the same database or pool, they take over what one of them has freed.
 */
#ifndef POOL_KEPT_H
#define POOL_KEPT_H

#include "pool/latency.h"
#include "pool/stats.h"

struct kept {
	struct stats stats;
	struct stats_history history; /* its snapshots, see kept_follow */
	unsigned snapshots;           /* how many the catalog had taken then */
	struct latency latency;
};

/* Frees it; *kp may be NULL, which stands for nothing in these functions. */
void kept_free(struct kept **kp);
/* Adds the counters of a pool to *kp at a catalog that has taken so many snapshots. */
void kept_add(struct kept **kp, const struct stats *stats,
    const struct stats_history *history, unsigned snapshots);
/* Adds histograms, and empties `latency`. */
void kept_add_latency(struct kept **kp, struct latency *latency);
/* Adds all of *from, and frees that. */
void kept_merge(struct kept **kp, struct kept **from);
/* Takes the snapshots that the catalog has taken meanwhile. */
void kept_follow(struct kept *k, unsigned snapshots);

#endif
