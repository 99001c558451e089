/*
 * SHOW: finds a view, describes its columns, and lets its walker write the rows.
 */
#ifndef VIEWS_SHOW_H
#define VIEWS_SHOW_H

#include <stdbool.h>
#include <stddef.h>

#include "views/row.h"
#include "views/views.h"

struct view {
	const char *name;
	const struct column *columns;
	size_t column_count; /* 0: no row set */
	view_walk_fn *walk;  /* NULL: no rows; the console sends a notice (HELP) */
	unsigned help_line;
	bool is_admin_only;
	/* How rows of several sites are put together.  has_each: all are listed;
	 * otherwise rows whose first key_count columns are equal become one. */
	bool has_each;
	unsigned key_count, sorted_by;
};

/* Returns the view with this name (in upper or lower case), or NULL. */
const struct view *view_find(const char *name);
/* Returns a view by its index, in the order of SHOW HELP; NULL behind the last one. */
const struct view *view_at(size_t i);

/* Appends the RowDescription of these columns. */
void show_put_columns(const struct column *columns, size_t count, struct buf *out);
/* Appends a notice about workers that did not answer; the view is shown without them.
 */
void show_put_missed(struct buf *out, unsigned missed);
/* Appends the whole answer to SHOW: RowDescription (none if column_count is 0), rows,
 * and CommandComplete.  If there is no memory, out->failed is set. */
void view_put(const struct view *view, struct site *site, struct buf *out);

#endif
