/*
 * Histograms of all sites, by database and user.
 */
#ifndef METRICS_DURATIONS_H
#define METRICS_DURATIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "metrics/metrics.def"
#include "pool/latency.h"
#include "views/row.h"

struct duration_row {
	struct node node;
	char *key; /* owned: database, NUL, user, NUL; as label values */
	struct histogram *histograms[LATENCY_KINDS]; /* owned; NULL: empty */
};

struct durations;

struct durations *durations_new(void);
/* Frees so many rows at most.  False: there are none left. */
bool durations_drop_rows(struct durations *durations, size_t most);
void durations_free(struct durations **durations);
/* As view_part_fn, on the way through the pools (views.h); rows->sink_ctx is the struct
 * durations. */
bool durations_part(struct rows *rows, size_t most);
/* struct duration_row by .node */
const struct list *durations_rows(const struct durations *durations);

/* A family of histograms. */
struct duration {
	enum latency_kind kind;
	const char *name, *help;
};
/* The i-th, NULL past the end. */
const struct duration *duration_at(size_t i);

#endif
