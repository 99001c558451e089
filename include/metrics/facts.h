/*
 * Metrics that no view has: the version, the process and its resources (METRIC_FACTS in
 * metrics.def).
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
	long long whole, micros;  /* the value is whole + micros / 1,000,000 */
	char labels[FACT_LABELS]; /* as they are written: a="b",c="d"; "": none */
};

/* Fills facts.  began_us: when the process began, on the loop's clock.  missed: how
 * many workers have not answered. */
void facts_find(struct fact facts[FACT_COUNT], const struct site *site,
    uint64_t began_us, unsigned missed);

#endif
