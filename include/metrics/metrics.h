/*
 * The HTTP server of metrics_listen: it serves what the console's views show to
 * Prometheus and other scrapers, and the health of the process.  It runs on the control
 * thread's loop.
 */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include "session/site.h"

struct metrics;

/* Makes site->metrics.  Call it on the control thread when its loop exists.  Opens no
 * socket yet. */
void metrics_start(struct site *site);
/* metrics_listen, metrics_tls or certificates may have changed: opens and closes
 * listening sockets.  A socket that cannot be opened is logged once and tried again
 * every second. */
void metrics_review(struct site *site);
/* Calls metrics_review in a second, unless somebody does so before: the process that
 * has been taken over still has the addresses. */
void metrics_wait(struct site *site);
/* Closes the listening sockets for good, because another process takes over their
 * addresses. */
void metrics_let_go(struct site *site);
/* Frees site->metrics; call it before the loop is freed.  Does nothing without
 * metrics_start. */
void metrics_stop(struct site *site);

/* How many descriptors the metrics server can use with these settings. */
size_t metrics_descriptors(const struct settings *settings);

#endif
