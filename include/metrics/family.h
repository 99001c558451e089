/*
 * The table of metrics.def as data.  Samples are the rows of one view; a family is
 * a metric that is made of one of its columns.
 */
#ifndef METRICS_FAMILY_H
#define METRICS_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "metrics/metrics.def"

enum samples_id {
#define SAMPLES(id, ...) SAMPLES_##id,
	METRIC_SAMPLES(SAMPLES)
#undef SAMPLES
	    SAMPLES_COUNT
};

enum { LABELS_MOST = 6 };

struct samples_kind {
	const char *view;
	unsigned key_count; /* the first so many labels identify a row; 0: see KEYS in
			       metrics.def */
	const char *labels[LABELS_MOST + 1]; /* NULL after the last */
};

enum family_type { FAMILY_GAUGE, FAMILY_COUNTER, FAMILY_INFO, FAMILY_COUNT };

struct family {
	enum samples_id samples;
	enum family_type type;
	const char *unit;  /* NULL: none */
	const char *name;  /* the name of its samples */
	const char *other; /* a second name under which it is served too; NULL: none */
	const char *column, *micros; /* "": none */
	const char *help;
};

const struct samples_kind *family_samples(enum samples_id id);
/* The i-th family; NULL past the end. */
const struct family *family_at(size_t i);
size_t family_count(void);
/* How many labels the samples of the family have. */
unsigned family_label_count(const struct family *family);
/* Is the value of the family the number of rows of its samples? */
bool family_is_row_count(const struct family *family);

#endif
