/*
 * What one scrape serves. The samples of one view: its rows, of all sites together, as
 * numbers with labels; the functions that write the rows for SHOW write them into
 * samples (row_sink). Label values are valid UTF-8 of at most LABEL_MOST bytes, because
 * clients choose some of them. Metrics that no view has: the process and its resources
 * (METRIC_OF_PROCESS in metrics.def). And the histograms of durations of all sites,
 * added up by database and user.
 */
#ifndef METRICS_SAMPLES_H
#define METRICS_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "metrics/metrics.def"
#include "pool/latency.h"
#include "session/site.h"
#include "views/row.h"

/* ---- the table of metrics.def as data ---- */

/* Samples are the rows of one view; a family is a metric that is made of one of its
 * columns. */
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

/* ---- the samples of a view ---- */

enum { SLOTS_MOST = 16, LABEL_MOST = 255 };

struct samples_row {
	struct node node;
	char *labels;        /* owned: all values, each with its NUL */
	long long numbers[]; /* by slot */
};

struct samples;

/* most: how many series the samples of clients have at most; further clients count as
 * application_name "other". */
struct samples *samples_new(enum samples_id id, size_t most);
/* Frees at most `most` rows.  Returns false if none is left. */
bool samples_drop_rows(struct samples *samples, size_t most);
void samples_free(struct samples **samples);

/* For rows_init_sink, with the samples as context. */
extern const struct row_sink samples_sink;

const struct list *samples_rows(
    const struct samples *samples); /* struct samples_row by .node */
/* The row with this key, in samples with KEYS; NULL: there is none. */
const struct samples_row *samples_find(const struct samples *samples, const char *key);
/* The index of a column in samples_row.numbers; -1 if name is "" or the column is not
 * kept. */
int samples_slot(const struct samples *samples, const char *name);
/* The n-th label of a row. */
const char *samples_label(const struct samples_row *row, unsigned n);

/* Makes a label value of text: replaces what is not UTF-8, and cuts what is too long.
 * NULL is "". */
void samples_take_label(char out[LABEL_MOST + 1], const char *text);

/* ---- the process ---- */

enum { PROCESS_SAMPLE_LABELS = 256 };

enum process_sample_id {
#define OF_PROCESS(id, ...) PROCESS_##id,
	METRIC_OF_PROCESS(OF_PROCESS)
#undef OF_PROCESS
	    PROCESS_SAMPLE_COUNT
};

struct process_sample {
	long long whole, micros; /* the value is whole + micros / 1,000,000 */
	char labels[PROCESS_SAMPLE_LABELS]; /* as they are written: a="b",c="d"; "":
					       none */
};

/* Fills process.  began_us: when the process began, on the loop's clock.  missed: how
 * many workers have not answered. */
void samples_find_process(struct process_sample process[PROCESS_SAMPLE_COUNT],
    const struct site *site, uint64_t began_us, unsigned missed);

/* ---- histograms ---- */

struct duration_row {
	struct node node;
	char *key; /* owned: the label values: database, NUL, user, NUL */
	struct histogram *histograms[LATENCY_KINDS]; /* owned; NULL: empty */
};

struct durations;
struct durations *durations_new(void);
/* Frees at most `most` rows.  Returns false if none is left. */
bool durations_drop_rows(struct durations *durations, size_t most);
void durations_free(struct durations **durations);
/* A view_part_fn that goes through the pools of a site (views.h).  rows->sink_ctx is
 * the struct durations. */
bool durations_part(struct rows *rows, size_t most);
/* struct duration_row by .node */
const struct list *durations_rows(const struct durations *durations);

/* A family of histograms: a row DURATION of metrics.def. */
struct duration {
	enum latency_kind kind;
	const char *name, *help;
};

/* The i-th family; NULL past the end. */
const struct duration *duration_at(size_t i);

#endif
