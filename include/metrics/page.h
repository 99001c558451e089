/*
 * The page of the metrics server, and the rows of views as JSON, from which it is made.
 */
#ifndef METRICS_PAGE_H
#define METRICS_PAGE_H

#include <stdint.h>

#include "net/http.h"
#include "session/site.h"

struct page;

struct page *page_new(struct site *site);
void page_free(struct page **page);
/* The setting metrics_page or metrics_listen may have changed: begins or ends the
 * history. */
void page_review(struct page *page, bool is_served);
/* Answers a request for "/" or "/views/NAME".  False: it is for neither, or the page is
 * off. */
bool page_answer(struct page *page, struct http_request *r);

#endif
