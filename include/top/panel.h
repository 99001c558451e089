/*
 * The panels of the live view: which view of the console each shows, and how.
 */
#ifndef TOP_PANEL_H
#define TOP_PANEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "top/table.h"

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

/* What is shown of it; changed by keys. */
struct panel_choice {
	enum panel_id id;
	int sort[PANELS];       /* column that is sorted by */
	bool is_upside[PANELS]; /* least first */
	char filter[64];        /* rows of databases whose name has this in it */
	int skip;               /* rows above the first one that is shown */
	bool is_recent;         /* latency: of the last period, not since the start */
};

/* The same view now and some time ago, for what is told per second.  beside: that of
 * LATENCY, for pools. */
struct panel_input {
	const struct table *now, *before, *beside_now, *beside_before;
};

/* The key that leads to it, the title of the chosen one, and what is asked for it:
 * "SHOW POOLS". */
char panel_key(enum panel_id id);
const char *panel_title(const struct panel_choice *choice);
const char *panel_query(enum panel_id id);
/* How many columns it has. */
int panel_columns(enum panel_id id);
/* Sorted as is most useful: the greatest first of a column that tells. */
void panel_choice_init(struct panel_choice *choice);

/* Appends the titles of the columns as one line, then rows, as many as there is room
 * for: lines of `width` at most, each with its newline.  Tables of the input may be
 * empty.  Returns how many rows fit the filter. */
size_t panel_put(struct buf *out, const struct panel_choice *choice,
    const struct panel_input *input, int width, int lines);

/* A number in at most six characters: 999999, 12.3M.  Durations from microseconds:
 * 12us, 3.4ms, 5.6s. */
void panel_print_number(double number, char out[16]);
void panel_print_duration(double us, char out[16]);

#endif
