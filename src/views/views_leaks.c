/*
 * SHOW STATE_LEAKS.
 */
#include "relay/session_state.h"
#include "views/views.def"
#include "views/views.h"

void view_state_leaks(struct rows *rows)
{
	const struct leak_row *leak;

	if (!rows->site->leak_table)
		return;
	list_for (leak, session_state_rows(rows->site->leak_table), node) {
		row_begin(rows);
		STATE_LEAKS_COLUMNS(CELL)
		row_end(rows);
	}
}
