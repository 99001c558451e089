/*
 * A harvest as bytes, some samples at a time, in one of three formats: Prometheus's
 * text (0.0.4), OpenMetrics (1.0), and Prometheus's protobuf messages, which alone
 * carry native histograms.
 */
#ifndef METRICS_WRITER_H
#define METRICS_WRITER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "metrics/format.h"
#include "metrics/harvest.h"

/* One family, whichever table it is from. */
struct served {
	const char *name, *help, *unit; /* unit NULL: none */
	bool is_counter, is_histogram;
	const struct fact *fact;         /* or NULL */
	const struct family *family;     /* or NULL */
	const struct duration *duration; /* or NULL */
	const struct sheet *sheet;       /* the family's */
};

/* A sample of it. */
struct sample {
	const char *labels[LABELS_MOST], *values[LABELS_MOST];
	unsigned label_count;
	const char *fixed_labels;          /* of a fact: complete */
	long long whole, micros;           /* the value is their sum */
	const struct histogram *histogram; /* of a duration */
};

struct writer {
	/* borrowed */
	const struct harvest *harvest;
	enum format format;
	size_t at;  /* the family, counting through all tables */
	bool other; /* it is served under its other name now */
	struct served served;
	enum { WRITER_HEAD, WRITER_SIZE, WRITER_SAMPLES, WRITER_OVER } state;
	struct node *row; /* the next one; NULL: none */
	bool has_fact;    /* a fact, or a number of rows, is still to come */
	size_t size;      /* protobuf: of all samples of the family */
};

void writer_init(struct writer *w, const struct harvest *harvest, enum format format);
/* Appends some more.  False: that was all. */
bool writer_part(struct writer *w, struct buf *out);

#endif
