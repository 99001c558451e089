/*
 * Histograms of durations in one pool: since the pool was made, and of recent time.
 * Recent means since the last snapshot of the statistics but one, as for the averages
 * of stats.h.
 */
#ifndef POOL_LATENCY_H
#define POOL_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"

/* What is measured, and its name. */
#define LATENCY_EACH(KIND)                                                       \
	KIND(WAIT, wait) /* for a server; 0 if one was free */                   \
	KIND(QUERY, query)                                                       \
	KIND(TRANSACTION, transaction)                                           \
	KIND(CONNECT, connect) /* to a server: from the first packet to ready */ \
	KIND(LOGIN, login)     /* of a client: from accept until it may send queries */

enum latency_kind {
#define LATENCY_CONSTANT(NAME, name) LATENCY_##NAME,
	LATENCY_EACH(LATENCY_CONSTANT)
#undef LATENCY_CONSTANT
	    LATENCY_KINDS
};

const char *latency_kind_shown(enum latency_kind kind);

/* What was counted before the last snapshot. */
struct latency_past;

/* A zeroed struct has counted nothing. */
struct latency {
	/* owned: since the last snapshot, without what is counted in the next two
	 * members */
	struct histogram *running[LATENCY_KINDS];
	struct histogram *single;  /* owned: queries that were a whole transaction */
	uint64_t unwaited;         /* number of waits of 0 */
	struct latency_past *past; /* owned; NULL: nothing */
};

static inline void latency_add(
    struct latency *l, enum latency_kind kind, uint64_t duration_us)
{
	histogram_add(&l->running[kind], duration_us);
}

/* Counts a query that was a whole transaction as both.  It is stored once, because most
 * queries are like that. */
static inline void latency_add_single(struct latency *l, uint64_t duration_us)
{
	histogram_add(&l->single, duration_us);
}

/* Counts a client that did not have to wait, because a server was free. */
static inline void latency_add_unwaited(struct latency *l)
{
	l->unwaited++;
}

/* The statistics take a snapshot. */
void latency_snapshot(struct latency *l);
/* Whether a snapshot would change nothing. */
bool latency_is_still(const struct latency *l);
bool latency_is_empty(const struct latency *l);
void latency_done(struct latency *l);
/* Adds everything that `from` has counted, and empties it. */
void latency_merge(struct latency *l, struct latency *from);

/* Adds everything counted to the histograms; recent may be NULL. */
void latency_sum(const struct latency *l, struct histogram *total[LATENCY_KINDS],
    struct histogram *recent[LATENCY_KINDS]);

#endif
