/*
 * Writes a collection in parts, in one of two formats: Prometheus text (0.0.4) or
 * OpenMetrics (1.0).
 */
#ifndef METRICS_WRITER_H
#define METRICS_WRITER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "metrics/collection.h"

/* ---- which format is asked for ---- */

enum format { FORMAT_TEXT, FORMAT_OPENMETRICS };
/* The format that an Accept header prefers (RFC 9110, section 12.5.1), the first of
 * equal ones.  FORMAT_TEXT if accept is NULL or names none of the formats. */
enum format writer_choose_format(const char *accept);
const char *writer_format_type(enum format format); /* its Content-Type */

/* ---- a collection ---- */

/* The family that is being written, whichever table of metrics.def it is from. */
struct served {
	const char *name, *help, *unit; /* unit NULL: none */
	bool is_counter, is_histogram;
	const struct process_sample *process; /* or NULL */
	const struct family *family;          /* or NULL */
	const struct duration *duration;      /* or NULL */
	const struct samples *samples;        /* of the family; NULL: none */
};

/* One sample of the family. */
struct sample {
	const char *labels[LABELS_MOST], *values[LABELS_MOST];
	unsigned label_count;
	const char *fixed_labels; /* of a sample of the process: as they are written */
	long long whole, micros;  /* the value is whole + micros / 1,000,000 */
	const struct histogram *histogram; /* of a duration; NULL: none */
};

struct writer {
	/* borrowed */
	const struct collection *collection;
	enum format format;
	size_t at;  /* index of the family, counted through all tables */
	bool other; /* the family is being served under its second name */
	struct served served;
	enum { WRITER_HEAD, WRITER_SAMPLES, WRITER_OVER } state;
	struct node *row; /* the next one; NULL: none */
	bool has_single;  /* a sample that comes from no row is still to be written */
};

void writer_init(
    struct writer *w, const struct collection *collection, enum format format);
/* Appends another part to out.  Returns false at the end. */
bool writer_part(struct writer *w, struct buf *out);

/* ---- the text format ---- */

void writer_put_sample(
    struct buf *out, const struct served *served, const struct sample *sample);

#endif
