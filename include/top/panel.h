/*
 * The panels of the live view.  Each shows one view of the console.
 */
#ifndef TOP_PANEL_H
#define TOP_PANEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/mem.h"

/* ---- answers as tables ---- */

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
/* A cell as text and as number; "" and 0 if there is no such column. */
const char *table_text(const struct table *t, size_t row, const char *name);
/* The sum of a column over rows whose first cell is not `but`, which may be NULL. */
double table_sum(const struct table *t, const char *name, const char *but);

/* ---- panels ---- */

enum panel_id {
	PANEL_POOLS,
	PANEL_DATABASES,
	PANEL_LATENCY,
	PANEL_BLOCKERS,
	PANEL_HOSTS,
	PANEL_WORKERS,
	PANEL_CLIENTS,
	PANELS
};

/* What is shown of the panels; keys change it. */
struct panel_choice {
	enum panel_id id;
	int sort[PANELS];       /* the column by which a panel is sorted */
	bool is_upside[PANELS]; /* the smallest first */
	char filter[64]; /* only rows of databases whose name contains this are shown */
	int skip;        /* rows that are scrolled away at the top */
	bool is_recent;  /* latency: of the last period instead of since the start */
};

/* The view now and some time ago, for values per second.  beside: the same of LATENCY,
 * for the panel of pools. */
struct panel_input {
	const struct table *now, *before, *beside_now, *beside_before;
};

/* The key that selects a panel, and the title of the chosen one. */
char panel_key(enum panel_id id);
const char *panel_title(const struct panel_choice *choice);
/* How many columns a panel has. */
int panel_columns(enum panel_id id);
/* Sets the default order: the greatest value of a useful column first. */
void panel_choice_init(struct panel_choice *choice);

/* Appends a line with the titles of the columns, then as many rows as there is room
 * for. Lines have at most `width` characters and a newline.  Tables of the input may be
 * empty.  Returns how many rows match the filter. */
size_t panel_put(struct buf *out, const struct panel_choice *choice,
    const struct panel_input *input, int width, int lines);

/* A number in at most six characters: 999999, 12.3M.  Durations from microseconds:
 * 12us, 3.4ms, 5.6s. */
void panel_print_number(double number, char out[16]);
void panel_print_duration(double us, char out[16]);

#endif
