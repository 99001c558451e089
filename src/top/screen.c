#include "top/screen.h"

#include <string.h>

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
