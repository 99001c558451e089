/*
 * SHOW STATE_LEAKS.
 */
#include "relay/leaks.h"
#include "views/views.def"
#include "views/views.h"

void view_state_leaks(struct rows *rows)
{
	const struct leak_row *leak;

	if (!rows->site->leaks)
		return;
	list_for (leak, leaks_rows(rows->site->leaks), node) {
		row_begin(rows);
		STATE_LEAKS_COLUMNS(CELL)
		row_end(rows);
	}
}
