/*
 * The histograms of durations that one scrape serves: those of all sites, added up by
 * database and user.
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
	char *key; /* owned: the label values: database, NUL, user, NUL */
	struct histogram *histograms[LATENCY_KINDS]; /* owned; NULL: empty */
};

struct durations;

struct durations *durations_new(void);
/* Frees at most `most` rows.  Returns false if none is left. */
bool durations_drop_rows(struct durations *durations, size_t most);
void durations_free(struct durations **durations);
/* A view_part_fn that goes through the pools of a site (views.h).  rows->sink_ctx is
 * the struct durations. */
bool durations_part(struct rows *rows, size_t most);
/* struct duration_row by .node */
const struct list *durations_rows(const struct durations *durations);

/* A family of histograms: a row DURATION of metrics.def. */
struct duration {
	enum latency_kind kind;
	const char *name, *help;
};
/* The i-th family; NULL past the end. */
const struct duration *duration_at(size_t i);

#endif
