/*
 * SHOW: finds a view, describes its columns, lets its walker write the rows.
 */
#ifndef VIEWS_SHOW_H
#define VIEWS_SHOW_H

#include <stdbool.h>
#include <stddef.h>

#include "views/row.h"
#include "views/views.h"

struct view {
	const char *name;
	const char *help;
	const struct column *columns;
	size_t column_count; /* 0: no row set */
	view_walk_fn *walk;  /* NULL: no rows, the console has a notice for it (HELP) */
	unsigned help_line;
	bool is_admin_only;
	/* Of several sites: rows with the same key are put together, and sorted. */
	bool has_each; /* ... or come one after the other */
	unsigned key_count, sorted_by;
};

/* The view of this name, in upper or lower case.  NULL: there is none. */
const struct view *view_find(const char *name);
/* The view at index i, in the order of SHOW HELP.  NULL: i is past the last one. */
const struct view *view_at(size_t i);

/* Append the RowDescription of these columns. */
void show_put_columns(const struct column *columns, size_t count, struct buf *out);
/* Append the whole answer to SHOW: columns (none if column_count is 0), rows, and
 * CommandComplete.  If there is no memory, out->failed is set. */
void view_put(const struct view *view, struct site *site, struct buf *out);

#endif
