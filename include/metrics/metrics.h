/*
 * The metrics listener: what the console's views show, for Prometheus and its like, and
 * the health of the process, over HTTP.  On the control thread's loop.
 */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include "session/site.h"

struct metrics;

/* On the control thread, when its loop is there; hangs from site->metrics.  Nothing is
 * opened yet. */
void metrics_start(struct site *site);
/* metrics_listen, metrics_tls or certificates may have changed: opens and closes
 * listening sockets.  One that cannot be opened is told in the log, and tried again. */
void metrics_review(struct site *site);
/* Closes the listening sockets, whose addresses another process wants now. */
void metrics_let_go(struct site *site);
/* Before the loop goes.  Nothing happens without metrics_start. */
void metrics_stop(struct site *site);

/* Descriptors that it can use with these settings. */
size_t metrics_descriptors(const struct settings *settings);

#endif
