/*
 * How the console answers.  What it answers is decided elsewhere.
 */
#include "admin/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

void reply_error_code(struct client *client, const char *sqlstate, const char *text)
{
	struct buf out;

	if (client->conn.is_doomed)
		return;
	log_error(client->conn.site->log, "%s", text);
	client_error_text(client, sqlstate, text);
	buf_init(&out, 0);
	send_ready(client, &out);
}

void reply_error_detail(struct client *client, const char *sqlstate, const char *text)
{
	char first[REPLY_TEXT_MAX + 1];
	const char *end = strchr(text, '\n');
	struct buf out;

	if (client->conn.is_doomed)
		return;
	snprintf(first, sizeof(first), "%.*s",
	    end ? (int)(end - text) : (int)strlen(text), text);
	log_error(client->conn.site->log, "%s", first);
	client_error_detail(client, sqlstate, first, end ? end + 1 : NULL);
	buf_init(&out, 0);
	send_ready(client, &out);
}

void reply_error(struct client *client, const char *fmt, ...)
{
	char text[REPLY_TEXT_MAX + 1];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	reply_error_code(client, error_sqlstate(ERROR_COMMAND_FAILED), text);
}

void reply_invalid(struct client *client, const char *query)
{
	reply_error(client, "invalid command '%s', use SHOW HELP;", query);
}
