/*
 * A scrape answers one HTTP request with one collection.  Several scrapes can be under
 * way at a time; one of them gathers.
 */
#ifndef METRICS_SCRAPE_H
#define METRICS_SCRAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/http.h"
#include "session/site.h"

struct scrapes;

/* site is the control thread's and must outlive the result.  began_us: when the process
 * began, on the loop's clock. */
struct scrapes *scrapes_new(struct site *site, uint64_t began_us);
/* Call it when no request has a scrape any more. */
void scrapes_free(struct scrapes **scrapes);

/* Finds room for another scrape; if there are too many, one whose client does not read
 * gives way.  -1: there is none. */
int scrapes_find_room(struct scrapes *scrapes);
/* Begins a scrape that answers the request in parts.  It becomes the request's data
 * (http_data). */
void scrape_begin(struct scrapes *scrapes, struct http_request *request);
/* The http_ops of such a request: its peer can take more bytes; it is gone. */
void scrape_go_on(struct http_request *request);
void scrape_drop(struct http_request *request);

#endif
