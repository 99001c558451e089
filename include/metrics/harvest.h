/*
 * A harvest is all data that one scrape serves, gathered from all sites.  It is
 * gathered a few rows per turn of the loop, so that no client is delayed.  Rows are
 * read at different moments, so sums of them may not agree.
 */
#ifndef METRICS_HARVEST_H
#define METRICS_HARVEST_H

#include "metrics/durations.h"
#include "metrics/facts.h"
#include "metrics/sheet.h"
#include "session/site.h"

struct harvest {
	struct node node; /* for the owner's list */
	struct fact facts[FACT_COUNT];
	struct sheet *sheets[SHEET_COUNT];
	struct durations *durations;
};

/* Called from the loop when a harvest is complete. */
typedef void harvest_fn(void *ctx);

/* Begins a harvest; call it on the control thread.  Only one may gather at a time,
 * because each site has a single position in the walk through its pools.  began_us:
 * when the process began, on the loop's clock. */
struct harvest *harvest_new(
    struct site *site, uint64_t began_us, harvest_fn *ready, void *ctx);
/* Frees a part of a harvest, complete or not, because there may be very many rows;
 * ready is not called any more.  Call it until it returns false: then all is freed and
 * *harvest is NULL. */
bool harvest_drop_part(struct harvest **harvest);
/* Frees all of it at once. */
void harvest_free(struct harvest **harvest);

#endif
