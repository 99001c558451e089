/*
 * Everything that one scrape serves, gathered from all sites, some rows per turn, so
 * that nobody waits for it.  Each row is true at the moment in which it is read.
 */
#ifndef METRICS_HARVEST_H
#define METRICS_HARVEST_H

#include "metrics/durations.h"
#include "metrics/facts.h"
#include "metrics/sheet.h"
#include "session/site.h"

struct harvest {
	struct node node; /* the owner's */
	struct fact facts[FACT_COUNT];
	struct sheet *sheets[SHEET_COUNT];
	struct durations *durations;
};

/* It is complete; called from the loop. */
typedef void harvest_fn(void *ctx);

/* Begins to gather on the control thread, only one at a time, as the sites have one way
 * through their pools each.  began_us: when the process began. */
struct harvest *harvest_new(
    struct site *site, uint64_t began_us, harvest_fn *ready, void *ctx);
/* It is not wanted any more, complete or not: nothing is told of it.  Frees a part of
 * it, for there may be very many rows, and all of it at last.  False: it is gone. */
bool harvest_drop_part(struct harvest **harvest);
/* At once. */
void harvest_free(struct harvest **harvest);

#endif
