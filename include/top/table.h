/*
 * The answer of a console to one SHOW: named columns, rows of texts.
 */
#ifndef TOP_TABLE_H
#define TOP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

enum { TABLE_COLUMNS = 128 };

struct table {
	struct arena *arena; /* has all the texts; NULL: nothing came yet */
	size_t column_count, row_count, room;
	const char *names[TABLE_COLUMNS];
	const char **cells; /* owned; row after row, column_count each */
	uint64_t taken_us;  /* when */
	bool is_refused;    /* the console does not have this view */
};

/* Empty again; a zeroed struct is empty. */
void table_clear(struct table *t);
void table_put_name(struct table *t, const uint8_t *text, size_t len);
/* A row of this many cells begins; -1: the table has other columns. */
int table_begin_row(struct table *t, size_t count);
/* A cell of the last row; text NULL: SQL's NULL, shown as nothing. */
void table_put_cell(struct table *t, size_t column, const uint8_t *text, size_t len);

/* -1: there is none of this name. */
int table_column(const struct table *t, const char *name);
/* "" where there is no such column. */
const char *table_text(const struct table *t, size_t row, const char *name);
double table_number(const struct table *t, size_t row, const char *name);
/* The sum of a column over rows whose first cell is not `but`, which may be NULL. */
double table_sum(const struct table *t, const char *name, const char *but);
/* The row that begins with these texts; -1: there is none.  It is looked for from row
 * `hint` on first. */
int table_find(const struct table *t, const char **texts, size_t count, size_t hint);

#endif
