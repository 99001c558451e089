/*
 * SHOW: finds a view, describes its columns, lets its walker write the rows.
 */
#ifndef ADMIN_SHOW_H
#define ADMIN_SHOW_H

#include <stdbool.h>
#include <stddef.h>

#include "admin/courtesy.h"
#include "admin/row.h"
#include "admin/views.h"

struct view {
	const char *name;
	const char *help;
	const struct column *columns;
	size_t column_count; /* 0: no row set */
	view_walk_fn *walk;
	unsigned help_line;
	bool is_admin_only;
};

/* NULL when there is no such view.  Any case. */
const struct view *view_find(const char *name);
/* The i-th view in the order of SHOW HELP, NULL past the end. */
const struct view *view_at(size_t i);

/* Append the RowDescription of these columns. */
void show_put_columns(const struct column *columns, size_t count, struct buf *out);
/* Append the whole answer up to CommandComplete.  */
void view_put(const struct view *view, struct site *site, struct buf *out);
/* The same for a question of a driver. */
void show_put_courtesy(const struct courtesy *courtesy, struct buf *out);

#endif
