/*
 * The rows of one view as numbers under labels, of all sites together.  A sheet is a
 * sink for the view's walker.  Label values are valid UTF-8 of bounded length, for
 * peers choose some of them.
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
	char *labels;        /* owned: one after the other, each with its NUL */
	long long numbers[]; /* by slot */
};

struct sheet;

/* most: of clients, how many series there are; the application_name of all others is
 * "other". */
struct sheet *sheet_new(enum sheet_id id, size_t most);
/* Frees so many rows at most.  False: there are none left. */
bool sheet_drop_rows(struct sheet *sheet, size_t most);
void sheet_free(struct sheet **sheet);

/* rows_init_sink takes them. */
extern const struct row_sink sheet_sink;

const struct list *sheet_rows(
    const struct sheet *sheet); /* struct sheet_row by .node */
/* Of a sheet with keys; NULL: it has none of this name. */
const struct sheet_row *sheet_find(const struct sheet *sheet, const char *key);
/* Where a column's number is in a row; -1: name is "", or the column is not kept. */
int sheet_slot(const struct sheet *sheet, const char *name);
/* The n-th label of a row. */
const char *sheet_label(const struct sheet_row *row, unsigned n);

/* A label value of a text, which may be NULL, as said above. */
void sheet_take_label(char out[LABEL_MOST + 1], const char *text);

#endif
