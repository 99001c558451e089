/*
 * The table of metrics.def: which sheets there are, and which families of metrics are
 * made of their columns.
 */
#ifndef METRICS_FAMILY_H
#define METRICS_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "metrics/metrics.def"

enum sheet_id {
#define SHEET(id, ...) SHEET_##id,
	METRIC_SHEETS(SHEET)
#undef SHEET
	    SHEET_COUNT
};

enum { LABELS_MOST = 6 };

struct sheet_kind {
	const char *view;
	unsigned key_count; /* labels that tell rows apart; 0: keys, see metrics.def */
	const char *labels[LABELS_MOST + 1]; /* NULL ends */
};

enum family_type { FAMILY_GAUGE, FAMILY_COUNTER, FAMILY_INFO, FAMILY_COUNT };

struct family {
	enum sheet_id sheet;
	enum family_type type;
	const char *unit;            /* NULL: none */
	const char *name;            /* of its samples */
	const char *other;           /* the same under another name; NULL: none */
	const char *column, *micros; /* "": none */
	const char *help;
};

const struct sheet_kind *family_sheet(enum sheet_id id);
/* The i-th, NULL past the end. */
const struct family *family_at(size_t i);
size_t family_count(void);
/* How many labels its samples have. */
unsigned family_label_count(const struct family *family);
/* Is it the number of the sheet's rows? */
bool family_is_row_count(const struct family *family);

/* Print the table as "md".  -1 for another format. */
int family_describe(FILE *out, const char *as);

#endif
