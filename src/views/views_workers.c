/*
 * SHOW WORKERS.
 */
#include <stdio.h>

#include "session/workers.h"
#include "views/views.def"
#include "views/views.h"

void view_workers(struct rows *rows)
{
	const struct site *site = rows->site;
	const struct loop_counts *counts = loop_counts(site->loop);
	const struct transfer_counts *servers = &site->transfer_counts;
	char worker[16] = "0";

	if (site->worker && workers_is_control(site))
		snprintf(worker, sizeof(worker), "control");
	else if (site->worker)
		snprintf(worker, sizeof(worker), "%u", site->worker->index);
	row_begin(rows);
	WORKERS_COLUMNS(CELL)
	row_end(rows);
}
