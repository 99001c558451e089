/*
 * Whether new clients can be served, for load balancers and orchestrators (/readyz).
 */
#ifndef METRICS_READINESS_H
#define METRICS_READINESS_H

#include "session/site.h"

/* NULL if new clients can be served, else a sentence that says why not: the pooler is
 * shutting down, suspended or paused, or all hosts of all databases are down.  A host
 * that nobody has tried yet does not count as down. */
const char *readiness_obstacle(struct site *site);

#endif
