/*
 * Whether new clients can be served: for balancers and orchestrators.
 */
#ifndef METRICS_READINESS_H
#define METRICS_READINESS_H

#include "session/site.h"

/* NULL: they can; else why not, as a sentence.  They cannot while the pooler is
 * shutting down, suspended or paused, and while each host of each database that is
 * known is down.  A host nobody has tried yet is not down. */
const char *readiness_obstacle(struct site *site);

#endif
