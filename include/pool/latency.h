/*
 * How long things took in one pool, as histograms: since the pool was made, and lately.
 * Lately is since the last snapshot of the statistics but one, as for the averages of
 * stats.h.
 */
#ifndef POOL_LATENCY_H
#define POOL_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"

/* What is measured, and its name. */
#define LATENCY_EACH(KIND)                                                           \
	KIND(WAIT, wait) /* for a server; 0 where one was free */                    \
	KIND(QUERY, query)                                                           \
	KIND(TRANSACTION, transaction)                                               \
	KIND(CONNECT, connect) /* of a server: from the first packet until usable */ \
	KIND(LOGIN, login)     /* of a client: from accept until it may send queries */

enum latency_kind {
#define LATENCY_CONSTANT(NAME, name) LATENCY_##NAME,
	LATENCY_EACH(LATENCY_CONSTANT)
#undef LATENCY_CONSTANT
	    LATENCY_KINDS
};

const char *latency_kind_shown(enum latency_kind kind);

/* What was counted until the last snapshot. */
struct latency_past;

/* A zeroed one has counted nothing. */
struct latency {
	/* owned, since the last snapshot: of each kind, without what follows */
	struct histogram *running[LATENCY_KINDS];
	struct histogram *single;  /* owned: queries that were a transaction each */
	uint64_t unwaited;         /* waits of 0 */
	struct latency_past *past; /* owned; NULL: nothing */
};

static inline void latency_add(
    struct latency *l, enum latency_kind kind, uint64_t duration_us)
{
	histogram_add(&l->running[kind], duration_us);
}

/* A query that was a whole transaction counts as both: most are, and are looked at
 * once. */
static inline void latency_add_single(struct latency *l, uint64_t duration_us)
{
	histogram_add(&l->single, duration_us);
}

/* A server was free. */
static inline void latency_add_unwaited(struct latency *l)
{
	l->unwaited++;
}

/* The statistics take a snapshot. */
void latency_snapshot(struct latency *l);
/* Would a snapshot change nothing? */
bool latency_is_still(const struct latency *l);
bool latency_is_empty(const struct latency *l);
void latency_done(struct latency *l);

/* Adds what it has counted; recent may be NULL. */
void latency_sum(const struct latency *l, struct histogram *total[LATENCY_KINDS],
    struct histogram *recent[LATENCY_KINDS]);

#endif
