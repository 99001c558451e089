/*
 * Metrics that no view has: the version, the process and its resources
 * (METRIC_OF_PROCESS in metrics.def).
 */
#ifndef METRICS_PROCESS_SAMPLES_H
#define METRICS_PROCESS_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "metrics/metrics.def"
#include "session/site.h"

enum process_sample_id {
#define OF_PROCESS(id, ...) PROCESS_##id,
	METRIC_OF_PROCESS(OF_PROCESS)
#undef OF_PROCESS
	    PROCESS_SAMPLE_COUNT
};

enum { PROCESS_SAMPLE_LABELS = 256 };

struct process_sample {
	long long whole, micros; /* the value is whole + micros / 1,000,000 */
	char labels[PROCESS_SAMPLE_LABELS]; /* as they are written: a="b",c="d"; "":
					       none */
};

/* Fills process.  began_us: when the process began, on the loop's clock.  missed: how
 * many workers have not answered. */
void process_samples_find(struct process_sample process[PROCESS_SAMPLE_COUNT],
    const struct site *site, uint64_t began_us, unsigned missed);

#endif
