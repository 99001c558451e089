/*
 * SHOW LATENCY.
 */
#include "session/latency_walk.h"
#include "views/views.def"
#include "views/views.h"

struct latency_view {
	struct rows *rows;
	struct latency_totals all;
};

static void put_kind(
    struct rows *rows, const struct latency_totals *totals, enum latency_kind kind)
{
	const char *database = totals->database, *user = totals->user;
	const struct histogram *total = totals->total[kind];
	const struct histogram *recent = totals->recent[kind];

	row_begin(rows);
	LATENCY_COLUMNS(CELL)
	row_end(rows);
}

static void put_totals(void *ctx, const struct latency_totals *totals)
{
	struct latency_view *view = ctx;

	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		if (!totals->total[kind])
			continue;
		put_kind(view->rows, totals, (enum latency_kind)kind);
		histogram_merge(&view->all.total[kind], totals->total[kind]);
		histogram_merge(&view->all.recent[kind], totals->recent[kind]);
	}
}

void view_latency(struct rows *rows)
{
	struct latency_view view = {.rows = rows};

	(void)latency_walk(rows->site, put_totals, &view);
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		put_kind(rows, &view.all, (enum latency_kind)kind);
		histogram_free(&view.all.total[kind]);
		histogram_free(&view.all.recent[kind]);
	}
}
