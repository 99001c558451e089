#include "admin/console.h"

#include <stdio.h>
#include <string.h>

#include "admin/command.h"
#include "admin/reply.h"
#include "admin/verbs.h"
#include "admin/wait.h"
#include "base/text.h"
#include "login/login.h"
#include "session/client.h"
#include "wire/codec.h"
#include "wire/message.h"

/* The limit of messages, which bounds the memory that a client can use.  Commands are
 * far shorter. */
enum { MESSAGE_MOST = 1024 * 1024 };

struct console {
	uint64_t ticket; /* see struct order */
	struct show_stream
	    *slices;        /* owned: the rest of an unfinished answer; NULL: none */
	bool has_commanded; /* the first command was counted as a query */
};

/* ---- commands ---- */

static void run_query(struct client *client, const char *query)
{
	struct command command;
	struct order order = {client, query, &command, &client->console->ticket,
	    &client->console->slices};

	struct pool *pool = client->request.in_pool.pool;
	if (!client->console->has_commanded) {
		client->console->has_commanded = true;
		pool->stats.query_count++;
		pool->stats.xact_count++;
	}
	command_parse(query, &command);
	if (command.form == COMMAND_TOO_LONG) {
		reply_error(client, ERROR_BAD_ARGUMENTS);
		return;
	}
	const struct verb *verb = verb_find(&command);
	if (!verb || !verb_has_form(verb, &command))
		reply_invalid(client, query);
	else if (!verb_is_allowed(verb, &command, client->is_admin))
		reply_error(client, ERROR_ADMIN_NEEDED);
	else
		verb->run(&order);
}

/* ---- messages ---- */

static enum step refuse(struct client *client)
{
	client_fatal(client, ERROR_BAD_PACKET);
	return STEP_CLOSE;
}

static enum step refuse_type(struct client *client, uint8_t type)
{
	if (!(message_front(type)->flags & MSG_KNOWN)) {
		client_fatal(client, ERROR_UNKNOWN_PACKET);
		return STEP_CLOSE;
	}
	reply_error(client, ERROR_TYPE_UNSUPPORTED, (int)type);
	return refuse(client);
}

static enum step take_query(struct client *client, const struct message *m)
{
	const char *query;

	if (codec_read_query(message_body(m), message_body_len(m), &query) < 0)
		return refuse(client);
	run_query(client, query);
	if (client->conn.is_doomed)
		return STEP_CLOSE;
	/* the message is shown again at the end of the reload */
	return client->console->ticket ? STEP_PARK : STEP_NEXT;
}

/* A Close of a named statement is answered, although there are no statements.  Anything
 * else is refused. */
static enum step take_close(struct client *client, const struct message *m)
{
	struct cursor c;
	struct buf out;

	cursor_init(&c, message_body(m), message_body_len(m));
	uint8_t what = cursor_u8(&c);
	const char *name = cursor_str(&c);
	if (c.overrun || what != 'S' || !*name)
		return refuse_type(client, m->type);
	buf_init(&out, 0);
	codec_put_empty(&out, '3');
	conn_send(&client->conn, &out);
	buf_done(&out);
	return STEP_NEXT;
}

/* The step for an incomplete message, which is needed as a whole. */
static enum step await_rest(struct client *client, const struct message *m)
{
	return m->size > MESSAGE_MOST ? refuse(client) : STEP_MORE;
}

static enum step console_message(struct conn *conn, const struct message *m)
{
	struct client *client = conn_client(conn);

	/* nothing more is read from a client that does not read its answers */
	if (client->console->slices || stream_is_above_high(&conn->stream))
		return STEP_PARK;
	client->request.in_pool.last_us = conn_now(conn);
	switch (m->type) {
	case 'Q':
		return message_is_whole(m) ? take_query(client, m)
					   : await_rest(client, m);
	case 'C':
		return message_is_whole(m) ? take_close(client, m)
					   : await_rest(client, m);
	case 'P':
	case 'B':
	case 'E':
		reply_error(client, ERROR_EXTENDED_UNSUPPORTED);
		return refuse(client);
	case 'd':
	case 'c':
	case 'f':
		return STEP_NEXT;
	case 'X':
		conn_doom(conn, "client close request");
		return STEP_CLOSE;
	default:
		return refuse_type(client, m->type);
	}
}

static void console_writable(struct conn *conn)
{
	struct show_stream *slices = conn_client(conn)->console->slices;

	if (slices)
		show_stream_go_on(slices);
	else
		conn_unpark(conn);
}

static void console_ended(struct conn *conn, const struct err *err)
{
	conn_log_tls_failure(conn, err);
	conn_doom(conn, "client unexpected eof");
}

static void console_closed(struct conn *conn, const char *reason)
{
	struct client *client = conn_client(conn);

	(void)reason;
	/* the last console closes: ends a SUSPEND, because nobody is left to give
	 * RESUME */
	struct site *site = client->conn.site;
	const struct pool *pool = client->request.in_pool.pool;
	if (site->catalog->suspended && site->shutdown == SHUTDOWN_NONE &&
	    pool->clients.count <= 1) {
		log_put(site->log, LEVEL_LOG | KIND_CONSOLE, NULL,
		    "admin disappeared when suspended, doing RESUME");
		site->verbs->resume(site);
	}
	wait_drop(client);
	show_stream_drop(&client->console->slices);
	mem_free(client->console);
	client->console = NULL;
	client_leave(client);
}

static const struct conn_ops console_ops = {
    .name = "console",
    .message = console_message,
    .part = conn_ignore_part,
    .writable = console_writable,
    .malformed = client_malformed,
    .ended = console_ended,
    .closed = console_closed,
};

/* ---- the service ---- */

static void console_adopt(struct client *client)
{
	const char *notice = site_settings(client->conn.site)->login_notify_message;
	const struct cancel_key *key = &client->cancel_key;
	struct buf out;
	char version[64];

	client->console = mem_zero(sizeof(*client->console));
	conn_hand_on(&client->conn, &console_ops);
	client->request.in_pool.is_logged_in = true;
	buf_init(&out, 0);
	const struct vars_schema *schema = client->conn.site->vars;
	snprintf(version, sizeof(version), "%s/bouncer", client->conn.site->version);
	codec_put_parameter_status(&out, "server_version", version);
	codec_put_parameter_status(&out, "client_encoding", "UTF8");
	codec_put_parameter_status(&out, "server_encoding", "UTF8");
	codec_put_parameter_status(&out, "DateStyle", "ISO");
	codec_put_parameter_status(&out, "TimeZone", "GMT");
	codec_put_parameter_status(&out, "standard_conforming_strings", "on");
	codec_put_parameter_status(&out, "is_superuser", "on");
	for (size_t i = 0; i < vars_schema_count(schema); i++) {
		const char *value = vars_get(&client->params.vars, i);
		if (value)
			codec_put_parameter_status(
			    &out, vars_schema_name(schema, i), value);
	}
	codec_put_backend_key(&out, cancel_key_bytes(key), key->len);
	if (notice && *notice)
		codec_put_notice(&out, notice, NULL);
	codec_put_ready(&out, 'I');
	conn_send(&client->conn, &out);
	buf_done(&out);
}

/* The rights are those of the name that the client asked for, because with
 * auth_type=any the user is the same for all. */
static bool console_admit(struct client *client)
{
	const struct settings *s = site_settings(client->conn.site);
	const char *user = login_user_name(client);

	client->is_admin = text_list_has(s->admin_users, user);
	return client->is_admin || s->auth_type == AUTH_ANY ||
	       text_list_has(s->stats_users, user);
}

/* A cancel request ends the PAUSE of all databases, whichever console gave it, and the
 * SWITCHOVER that its own console waits for, if that console has the right to RESUME.
 */
static void console_cancel(struct client *client)
{
	struct site *site = client->conn.site;
	bool resumes = site->shutdown == SHUTDOWN_NONE &&
		       (site->catalog->paused || site->catalog->suspended);

	if (!client->is_admin)
		return;
	wait_cancel(client, resumes);
	if (resumes)
		site->verbs->resume(site);
}

const struct service console_service = {
    .name = "console",
    .admit = console_admit,
    .adopt = console_adopt,
    .cancel = console_cancel,
};
