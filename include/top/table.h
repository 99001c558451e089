/*
 * The answer of the console to one SHOW: named columns and rows of texts.
 */
#ifndef TOP_TABLE_H
#define TOP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

enum { TABLE_COLUMNS = 128 };

struct table {
	struct arena *arena; /* holds all texts; NULL: the table is empty */
	size_t column_count, row_count, room;
	const char *names[TABLE_COLUMNS];
	const char **cells; /* owned; row after row, column_count each */
	uint64_t taken_us;  /* when it was complete, on the loop's clock */
	bool is_refused;    /* the console does not have this view */
};

/* Frees the contents; a zeroed struct is an empty table. */
void table_clear(struct table *t);
void table_put_name(struct table *t, const uint8_t *text, size_t len);
/* Begins a row with this many cells.  -1: the table has another number of columns. */
int table_begin_row(struct table *t, size_t count);
/* Sets a cell of the last row.  text NULL: SQL's NULL, which is shown as nothing. */
void table_put_cell(struct table *t, size_t column, const uint8_t *text, size_t len);

/* The index of a column; -1: there is none of this name. */
int table_column(const struct table *t, const char *name);
/* A cell as text and as number; "" and 0 if there is no such column. */
const char *table_text(const struct table *t, size_t row, const char *name);
double table_number(const struct table *t, size_t row, const char *name);
/* The sum of a column over rows whose first cell is not `but`, which may be NULL. */
double table_sum(const struct table *t, const char *name, const char *but);
/* The row that begins with these texts; -1: there is none.  The search begins at row
 * `hint`. */
int table_find(const struct table *t, const char **texts, size_t count, size_t hint);

#endif
