/*
 * SHOW HELP, from the tables of commands and views.
 */
#include "admin/help.h"

#include "views/show.h"
#include "wire/codec.h"

enum { OWN_LINE = 6 };

/* What follows the lines of SHOW. */
#define COMMAND(name, arguments, rights, handler, usage, help) usage,
static const char *const usages[] = {
#include "admin/commands.def"
};
#undef COMMAND

/* Appends "\n\tSHOW HELP|CONFIG|...", with a new line where the number of the line
 * changes.  Views that PgBouncer does not have are on OWN_LINE. */
static void put_show_usage(struct buf *text, bool is_own)
{
	const struct view *view;
	unsigned line = 0;

	for (size_t i = 0; (view = view_at(i)); i++) {
		if ((view->help_line >= OWN_LINE) != is_own)
			continue;
		buf_put_text(text, view->help_line == line ? "|" : "\n\tSHOW ");
		buf_put_text(text, view->name);
		line = view->help_line;
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

void help_put(struct buf *out)
{
	struct buf text;

	buf_init(&text, 0);
	put_show_usage(&text, false);
	for (size_t i = 0; i < sizeof(usages) / sizeof(usages[0]); i++)
		if (usages[i])
			put_usage(&text, usages[i]);
	put_show_usage(&text, true);
	codec_put_notice(out, "Console usage", buf_text(&text));
	buf_done(&text);
	codec_put_command_complete(out, "SHOW");
}
