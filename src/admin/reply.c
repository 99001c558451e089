/*
 * Sends the answers of the console, for verbs.c and wait.c: also SHOW HELP, from the
 * tables of commands and views, and the parameters that drivers show or set right after
 * connecting.
 */
#include "admin/reply.h"

#include <stdarg.h>
#include <stddef.h>

#include "base/text.h"
#include "views/show.h"
#include "wire/codec.h"

static void send_ready(struct client *client, struct buf *out)
{
	codec_put_ready(out, 'I');
	conn_send(&client->conn, out);
	buf_done(out);
}

void reply_done(struct client *client, const char *tag)
{
	struct buf out;

	if (client->conn.is_doomed)
		return;
	buf_init(&out, 0);
	codec_put_command_complete(&out, tag);
	send_ready(client, &out);
}

void reply_error_detail(struct client *client, enum error_id id, const char *detail)
{
	struct buf out;

	if (client->conn.is_doomed)
		return;
	log_put(client->conn.site->log, LEVEL_ERROR | KIND_CONSOLE, NULL, "%s",
	    error_text(id));
	client_error_detail(client, id, detail);
	buf_init(&out, 0);
	send_ready(client, &out);
}

void reply_error(struct client *client, enum error_id id, ...)
{
	char text[CLIENT_ERROR_MAX];
	struct buf out;
	va_list ap;

	if (client->conn.is_doomed)
		return;
	va_start(ap, id);
	log_put(client->conn.site->log, LEVEL_ERROR | KIND_CONSOLE, NULL, "%s",
	    error_vprint(text, sizeof(text), id, ap));
	va_end(ap);
	va_start(ap, id);
	client_verror(client, id, ap);
	va_end(ap);
	buf_init(&out, 0);
	send_ready(client, &out);
}

void reply_invalid(struct client *client, const char *query)
{
	reply_error(client, ERROR_INVALID_COMMAND, query);
}

/* ---- SHOW HELP ---- */

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

void reply_put_help(struct buf *out)
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

/* ---- SHOW and SET of drivers ---- */

static const struct driver_param params[] = {
    {"client_encoding", "UTF-8"},
    {"default_transaction_isolation", "read committed"},
    {"standard_conforming_strings", "on"},
    {"datestyle", "ISO"},
    {"timezone", "GMT"},
};

const struct driver_param *driver_param_find(const char *name)
{
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
		if (text_equal_nocase(params[i].name, name))
			return &params[i];
	return NULL;
}

void driver_param_put(const struct driver_param *param, struct buf *out)
{
	const struct column column = {param->name, &cell_text};
	struct rows rows;

	show_put_columns(&column, 1, out);
	rows_init(&rows, NULL, out, 1);
	row_begin(&rows);
	row_text(&rows, param->value);
	row_end(&rows);
	codec_put_command_complete(out, "SHOW");
}
