/*
 * Scrapes: each is a harvest, written to one request.  At most a few at a time, of
 * which one gathers.
 */
#ifndef METRICS_SCRAPE_H
#define METRICS_SCRAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/http.h"
#include "session/site.h"

struct scrapes;

/* site is the control thread's, and lives longer.  began_us: when the process began. */
struct scrapes *scrapes_new(struct site *site, uint64_t began_us);
/* When no request has one any more. */
void scrapes_free(struct scrapes **scrapes);

/* Can one more begin? */
bool scrapes_have_room(const struct scrapes *scrapes);
/* Answers the request, by and by; its data are the scrape. */
void scrape_begin(struct scrapes *scrapes, struct http_request *request);
/* What http says of such a request. */
void scrape_go_on(struct http_request *request);
void scrape_drop(struct http_request *request);

#endif
