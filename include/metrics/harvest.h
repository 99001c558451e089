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
/* Also before it is complete. */
void harvest_free(struct harvest **harvest);

#endif
