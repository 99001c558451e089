/*
 * What no view shows: version, the process and its resources.
 */
#ifndef METRICS_FACTS_H
#define METRICS_FACTS_H

#include <stddef.h>
#include <stdint.h>

#include "metrics/metrics.def"
#include "session/site.h"

enum fact_id {
#define FACT(id, ...) FACT_##id,
	METRIC_FACTS(FACT)
#undef FACT
	    FACT_COUNT
};

enum { FACT_LABELS = 256 };

struct fact {
	long long whole, micros;  /* the value is their sum */
	char labels[FACT_LABELS]; /* complete: a="b",c="d"; "": none */
};

/* began_us: when the process began, in loop_now() time.  missed: workers. */
void facts_find(struct fact facts[FACT_COUNT], const struct site *site,
    uint64_t began_us, unsigned missed);

#endif
