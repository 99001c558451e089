/*
 * A collection is all data that one scrape serves, gathered from all sites.  It is
 * gathered a few rows per turn of the loop, so that no client is delayed.  Rows are
 * read at different moments, so sums of them may not agree.
 */
#ifndef METRICS_COLLECTION_H
#define METRICS_COLLECTION_H

#include "metrics/samples.h"
#include "session/site.h"

struct collection {
	struct node node; /* for the owner's list */
	struct process_sample process[PROCESS_SAMPLE_COUNT];
	struct samples *samples[SAMPLES_COUNT];
	struct durations *durations;
};

/* Called from the loop when a collection is complete. */
typedef void collection_fn(void *ctx);

/* Begins a collection; call it on the control thread.  Only one may gather at a time,
 * because each site has a single position in the walk through its pools.  began_us:
 * when the process began, on the loop's clock. */
struct collection *collection_new(
    struct site *site, uint64_t began_us, collection_fn *ready, void *ctx);
/* Frees a part of a collection, complete or not, because there may be very many rows;
 * ready is not called any more.  Call it until it returns false: then all is freed and
 * *collection is NULL. */
bool collection_drop_part(struct collection **collection);
/* Frees all of it at once. */
void collection_free(struct collection **collection);

#endif
