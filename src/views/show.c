#include "views/show.h"

#include <assert.h>
#include <stdio.h>

#include "base/text.h"
#include "session/workers.h"
#include "views/merge.h"
#include "views/views.def"
#include "wire/codec.h"

enum { COLUMNS_MOST = 32 };

#define ANYONE false
#define ADMIN  true

/* ends with an empty row, because an array must not be empty */
#define COLUMN(name, type, value, help) {#name, &cell_##type},
#define VIEW_ARRAY(name, line, rights, sites, walk, columns, help) \
	static const struct column columns_of_##name[] = {columns(COLUMN){NULL, NULL}};
VIEWS(VIEW_ARRAY)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define CONTROL         false, 0, 0
#define EACH            true, 0, 0
#define BY(n, m)        false, n, m
#define VIEW_ROW(name, line, rights, sites, walk, columns, help)                \
	{#name, columns_of_##name, COUNT_OF(columns_of_##name) - 1, walk, line, \
	    rights, sites},
static const struct view views[] = {VIEWS(VIEW_ROW)};

const struct view *view_at(size_t i)
{
	return i < COUNT_OF(views) ? &views[i] : NULL;
}

const struct view *view_find(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(views); i++)
		if (text_equal_nocase(views[i].name, name))
			return &views[i];
	return NULL;
}

void show_put_columns(const struct column *columns, size_t count, struct buf *out)
{
	struct codec_column described[COLUMNS_MOST];

	assert(count <= COLUMNS_MOST);
	for (size_t i = 0; i < count; i++)
		described[i] = (struct codec_column){
		    columns[i].name, columns[i].type->oid, columns[i].type->len};
	codec_put_row_description(out, described, count);
}

/* Collects the rows of several sites. */
struct gathering {
	const struct view *view;
	struct merge *merge; /* NULL: the rows are listed one after the other */
	struct buf *out;
	unsigned missed;
};

static void gather(struct site *site, void *ctx)
{
	struct gathering *g = ctx;
	struct rows rows;

	if (g->merge)
		merge_init_rows(g->merge, &rows, site);
	else
		rows_init(&rows, site, g->out, g->view->column_count);
	g->view->walk(&rows);
	g->missed += rows.missed;
}

void show_put_missed(struct buf *out, unsigned missed)
{
	char text[100];

	if (missed == 0)
		return;
	snprintf(text, sizeof(text),
	    "%u of the workers did not answer in time; their rows are missing", missed);
	codec_put_notice(out, text, NULL);
}

static void put_rows(const struct view *view, struct site *site, struct buf *out)
{
	struct gathering g = {.view = view, .out = out};
	unsigned missed = 0;

	if (workers_site_count(site) == 1 ||
	    (!view->has_each && view->key_count == 0)) {
		gather(site, &g);
		show_put_missed(out, g.missed);
		return;
	}
	if (view->key_count > 0)
		g.merge = merge_new(view);
	central_freeze(site->worker->workers->central, true);
	/* listeners are listed before the connections that came through them */
	missed = view->walk == view_fds ? workers_each_own_first(site, gather, &g)
					: workers_each(site, gather, &g);
	central_freeze(site->worker->workers->central, false);
	if (g.merge)
		merge_put(g.merge, out);
	merge_free(&g.merge);
	show_put_missed(out, missed);
}

void view_put(const struct view *view, struct site *site, struct buf *out)
{
	assert(view->walk);
	if (view->column_count > 0)
		show_put_columns(view->columns, view->column_count, out);
	put_rows(view, site, out);
	codec_put_command_complete(out, "SHOW");
}
