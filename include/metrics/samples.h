/*
 * The samples of one view: its rows, of all sites together, as numbers with labels.
 * The functions that write the rows for SHOW write them into samples (row_sink).
 * Label values are valid UTF-8 of at most LABEL_MOST bytes, because clients choose some
 * of them.
 */
#ifndef METRICS_SAMPLES_H
#define METRICS_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "metrics/family.h"
#include "views/row.h"

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

#endif
