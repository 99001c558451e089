/*
 * A sheet holds the rows of one view, of all sites together, as numbers with labels.
 * The functions that write the rows for SHOW write them into the sheet (row_sink).
 * Label values are valid UTF-8 of at most LABEL_MOST bytes, because clients choose some
 * of them.
 */
#ifndef METRICS_SHEET_H
#define METRICS_SHEET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "metrics/family.h"
#include "views/row.h"

enum { SLOTS_MOST = 16, LABEL_MOST = 255 };

struct sheet_row {
	struct node node;
	char *labels;        /* owned: all values, each with its NUL */
	long long numbers[]; /* by slot */
};

struct sheet;

/* most: how many series the sheet of clients has at most; further clients count as
 * application_name "other". */
struct sheet *sheet_new(enum sheet_id id, size_t most);
/* Frees at most `most` rows.  Returns false if none is left. */
bool sheet_drop_rows(struct sheet *sheet, size_t most);
void sheet_free(struct sheet **sheet);

/* For rows_init_sink, with the sheet as context. */
extern const struct row_sink sheet_sink;

const struct list *sheet_rows(
    const struct sheet *sheet); /* struct sheet_row by .node */
/* The row with this key, in a sheet with KEYS; NULL: there is none. */
const struct sheet_row *sheet_find(const struct sheet *sheet, const char *key);
/* The index of a column in sheet_row.numbers; -1 if name is "" or the column is not
 * kept. */
int sheet_slot(const struct sheet *sheet, const char *name);
/* The n-th label of a row. */
const char *sheet_label(const struct sheet_row *row, unsigned n);

/* Makes a label value of text: replaces what is not UTF-8, and cuts what is too long.
 * NULL is "". */
void sheet_take_label(char out[LABEL_MOST + 1], const char *text);

#endif
