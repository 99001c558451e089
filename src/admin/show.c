/*
 * SHOW: the table of views, and what is the same for all of them.  The rows come from
 * the walkers in views_*.c.
 */
#include "admin/show.h"

#include <assert.h>
#include <stdio.h>

#include "admin/merge.h"
#include "admin/views.def"
#include "base/text.h"
#include "session/crew.h"
#include "wire/codec.h"

enum { COLUMNS_MOST = 32, OWN_LINE = 6 };

static view_walk_fn show_help;

#define ANYONE false
#define ADMIN  true

/* A last row with nothing in it, so that views without columns have an array too. */
#define COLUMN(name, type, value, help) {#name, &cell_##type, help},
#define VIEW_ARRAY(name, line, rights, sites, walk, columns, help) \
	static const struct column columns_of_##name[] = {         \
	    columns(COLUMN){NULL, NULL, NULL}};
VIEWS(VIEW_ARRAY)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define CONTROL         false, 0, 0
#define EACH            true, 0, 0
#define BY(n, m)        false, n, m
#define VIEW_ROW(name, line, rights, sites, walk, columns, help)                      \
	{#name, help, columns_of_##name, COUNT_OF(columns_of_##name) - 1, walk, line, \
	    rights, sites},
static const struct view views[] = {VIEWS(VIEW_ROW)};

/* What follows the lines of SHOW in SHOW HELP. */
#define COMMAND(name, arguments, rights, handler, usage, help) usage,
static const char *const usages[] = {
#include "admin/commands.def"
};
#undef COMMAND

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

/* Appends "\n\tSHOW HELP|CONFIG|...", with a new line where the number of the line
 * changes.  Views that PgBouncer does not have are on OWN_LINE. */
static void put_show_usage(struct buf *text, bool is_own)
{
	unsigned line = 0;

	for (size_t i = 0; i < COUNT_OF(views); i++) {
		if ((views[i].help_line >= OWN_LINE) != is_own)
			continue;
		buf_put_text(text, views[i].help_line == line ? "|" : "\n\tSHOW ");
		buf_put_text(text, views[i].name);
		line = views[i].help_line;
	}
}

static void put_usage(struct buf *text, const char *usage)
{
	buf_put_text(text, "\n\t");
	for (; *usage; usage++) {
		buf_put_u8(text, (uint8_t)*usage);
		if (*usage == '\n')
			buf_put_u8(text, '\t');
	}
}

static void show_help(struct rows *rows)
{
	struct buf text;

	buf_init(&text, 0);
	put_show_usage(&text, false);
	for (size_t i = 0; i < COUNT_OF(usages); i++)
		if (usages[i])
			put_usage(&text, usages[i]);
	put_show_usage(&text, true);
	codec_put_notice(rows->out, "Console usage", buf_text(&text));
	buf_done(&text);
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

/* Rows of several sites. */
struct gathering {
	const struct view *view;
	struct merge *merge; /* NULL: they come one after the other */
	struct buf *out;
};

static void gather(struct site *site, void *ctx)
{
	struct gathering *g = ctx;
	struct buf own;
	struct rows rows;

	buf_init(&own, 0);
	rows_init(&rows, site, g->merge ? &own : g->out, g->view->column_count);
	g->view->walk(&rows);
	if (g->merge)
		merge_add(g->merge, &own);
	buf_done(&own);
}

/* A worker that stands still does not hold up the console. */
static void put_missed(struct buf *out, unsigned missed)
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

	if (crew_site_count(site) == 1 || (!view->has_each && view->key_count == 0)) {
		gather(site, &g);
		return;
	}
	if (view->key_count > 0)
		g.merge = merge_new(view);
	tallies_freeze(site->crew->crew->tallies, true);
	/* Listeners come before what came through them. */
	missed = view->walk == view_fds ? crew_each_own_first(site, gather, &g)
					: crew_each(site, gather, &g);
	tallies_freeze(site->crew->crew->tallies, false);
	if (g.merge)
		merge_put(g.merge, out);
	merge_free(&g.merge);
	put_missed(out, missed);
}

void view_put(const struct view *view, struct site *site, struct buf *out)
{
	if (view->column_count > 0)
		show_put_columns(view->columns, view->column_count, out);
	put_rows(view, site, out);
	codec_put_command_complete(out, "SHOW");
}

void show_put_courtesy(const struct courtesy *courtesy, struct buf *out)
{
	const struct column column = {courtesy->name, &cell_text, NULL};
	struct rows rows;

	show_put_columns(&column, 1, out);
	rows_init(&rows, NULL, out, 1);
	row_begin(&rows);
	row_text(&rows, courtesy->value);
	row_end(&rows);
	codec_put_command_complete(out, "SHOW");
}
