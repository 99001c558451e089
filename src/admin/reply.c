/*
 * Sends the answers of the console, for verbs.c and wait.c.
 */
#include "admin/reply.h"

#include <stdarg.h>

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
