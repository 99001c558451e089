#include "top/board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const queries[BOARD_VIEWS] = {
    [BOARD_VERSION] = "SHOW VERSION",
    [BOARD_STATE] = "SHOW STATE",
    [BOARD_POOLS] = "SHOW POOLS",
    [BOARD_STATS] = "SHOW STATS",
    [BOARD_WORKERS] = "SHOW WORKERS",
    [BOARD_LATENCY] = "SHOW LATENCY",
    [BOARD_BLOCKERS] = "SHOW BLOCKERS",
    [BOARD_HOSTS] = "SHOW HOSTS",
    [BOARD_CLIENTS] = "SHOW CLIENTS",
};

static const enum board_view views[PANELS] = {
    [PANEL_POOLS] = BOARD_POOLS,
    [PANEL_DATABASES] = BOARD_STATS,
    [PANEL_LATENCY] = BOARD_LATENCY,
    [PANEL_BLOCKERS] = BOARD_BLOCKERS,
    [PANEL_HOSTS] = BOARD_HOSTS,
    [PANEL_WORKERS] = BOARD_WORKERS,
    [PANEL_CLIENTS] = BOARD_CLIENTS,
};

void board_clear(struct board *board)
{
	for (int i = 0; i < BOARD_VIEWS; i++) {
		table_clear(&board->now[i]);
		table_clear(&board->before[i]);
	}
}

const char *board_query(enum board_view view)
{
	return queries[view];
}

bool board_needs(const struct board *board, enum board_view view, enum panel_id panel)
{
	if (view == BOARD_VERSION)
		return !board->now[view].arena;
	/* an older pooler without this view is not asked again */
	if (board->now[view].is_refused)
		return false;
	return view <= BOARD_WORKERS || view == views[panel] ||
	       (view == BOARD_LATENCY && panel == PANEL_POOLS);
}

struct panel_input board_input(const struct board *board, enum panel_id panel)
{
	enum board_view view = views[panel];

	return (struct panel_input){.now = &board->now[view],
	    .before = &board->before[view],
	    .beside_now = &board->now[BOARD_LATENCY],
	    .beside_before = &board->before[BOARD_LATENCY]};
}

void board_take(struct board *board, enum board_view view, struct table *answer)
{
	table_clear(&board->before[view]);
	board->before[view] = board->now[view];
	board->now[view] = *answer;
	*answer = (struct table){.arena = NULL};
}

/* ---- the head ---- */

/* The value of a key in a table; "": there is no such key. */
static const char *value_of(const struct table *t, const char *key)
{
	for (size_t row = 0; row < t->row_count; row++)
		if (strcmp(table_text(t, row, "key"), key) == 0)
			return table_text(t, row, "value");
	return "";
}

static const char *state_of(const struct table *t)
{
	static const char *const words[] = {"suspended", "paused", "active"};

	for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
		if (strcmp(value_of(t, words[w]), "yes") == 0)
			return words[w];
	return "";
}

/* Writes "up 3d 04:05:06"; nothing for older poolers, which do not report it. */
static void put_uptime(struct buf *out, const struct table *t)
{
	const char *text = value_of(t, "uptime_seconds");
	long s = strtol(text, NULL, 10);

	if (!*text)
		return;
	buf_put_text(out, "   up ");
	if (s >= 24 * 3600)
		buf_printf(out, "%ldd ", s / (24 * 3600));
	buf_printf(out, "%02ld:%02ld:%02ld", s / 3600 % 24, s / 60 % 60, s % 60);
}

static double rate(const struct board *board, const char *name)
{
	const struct table *now = &board->now[BOARD_STATS];
	const struct table *before = &board->before[BOARD_STATS];
	double grown =
	    table_sum(now, name, "pgbouncer") - table_sum(before, name, "pgbouncer");

	if (!before->arena || now->taken_us <= before->taken_us || grown < 0)
		return 0;
	return grown * 1e6 / (double)(now->taken_us - before->taken_us);
}

static void put_rate(
    struct buf *out, const struct board *board, const char *name, const char *unit)
{
	char text[16];

	panel_print_number(rate(board, name), text);
	buf_printf(out, "%s%s   ", text, unit);
}

static void end_line(struct buf *out, size_t begin, int width)
{
	if (out->len - begin > (size_t)width)
		out->len = begin + (size_t)width;
	buf_put_u8(out, '\n');
}

static int pools_sum(const struct board *board, const char *name)
{
	return (int)table_sum(&board->now[BOARD_POOLS], name, "pgbouncer");
}

void board_put_head(
    struct buf *out, const struct board *board, const char *clock, int width)
{
	const struct table *version = &board->now[BOARD_VERSION];
	size_t begin = out->len;

	buf_printf(out, "%s   %s   %s", clock,
	    version->row_count ? table_text(version, 0, "version") : "",
	    state_of(&board->now[BOARD_STATE]));
	put_uptime(out, &board->now[BOARD_STATE]);
	end_line(out, begin, width);
	begin = out->len;
	buf_printf(out, "clients: %d active, %d waiting   ",
	    pools_sum(board, "cl_active"), pools_sum(board, "cl_waiting"));
	buf_printf(out, "servers: %d active, %d idle, %d used, %d logging in",
	    pools_sum(board, "sv_active"), pools_sum(board, "sv_idle"),
	    pools_sum(board, "sv_used"), pools_sum(board, "sv_login"));
	end_line(out, begin, width);
	begin = out->len;
	put_rate(out, board, "total_xact_count", " xact/s");
	put_rate(out, board, "total_query_count", " queries/s");
	put_rate(out, board, "total_received", " B/s in");
	put_rate(out, board, "total_sent", " B/s out");
	const struct table *t = &board->now[BOARD_WORKERS];
	if (t->row_count) {
		buf_put_text(out, "busy:");
		for (size_t row = 0; row < t->row_count; row++)
			buf_printf(out, " %s%%", table_text(t, row, "busy"));
	}
	end_line(out, begin, width);
}

/* ---- all lines ---- */

static void put_line(struct buf *out, const char *text, int width)
{
	buf_put(out, text, strnlen(text, (size_t)width));
	buf_put_u8(out, '\n');
}

static void put_panel(struct buf *out, const struct screen *s)
{
	struct panel_choice *choice = &s->keys->choice;
	struct panel_input input = board_input(s->board, choice->id);
	const struct table *now = input.now;
	struct buf rows;
	struct buf line;

	if (now->is_refused) {
		put_line(out, panel_title(choice), s->width);
		put_line(out, "this pooler has no such view", s->width);
		return;
	}
	buf_init(&rows, 0);
	if (choice->skip && (size_t)choice->skip >= now->row_count)
		choice->skip = now->row_count ? (int)now->row_count - 1 : 0;
	size_t count =
	    panel_put(&rows, choice, &input, s->width, s->lines - SCREEN_TITLES - 1);
	buf_init(&line, 0);
	buf_printf(&line, "%s: %zu", panel_title(choice), count);
	if (*choice->filter)
		buf_printf(&line, " with '%s' in the database's name", choice->filter);
	if (choice->skip)
		buf_printf(&line, ", from %d on", choice->skip + 1);
	put_line(out, buf_text(&line), s->width);
	buf_done(&line);
	buf_put(out, rows.bytes, rows.len);
	buf_done(&rows);
}

void screen_put(struct buf *out, const struct screen *s)
{
	board_put_head(out, s->board, s->clock, s->width);
	put_line(out, s->message, s->width);
	if (s->keys->is_helping)
		buf_put_text(out, keys_help());
	else
		put_panel(out, s);
}
