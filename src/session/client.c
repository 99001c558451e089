#include "session/client.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "session/client_snapshot.h"
#include "session/limits.h"
#include "session/reserved_fds.h"
#include "session/server.h"
#include "session/strangers.h"
#include "session/workers.h"
#include "wire/codec.h"
#include "wire/message.h"
#include "wire/prepared.h"

void client_name_it(const struct conn *conn, struct conn_name *out)
{
	const struct client *client = conn_client(conn);

	if (client->database && client->user)
		out->database = client->database->name;
	if (client->user)
		out->user = client->user->name;
}

static void client_destroy(struct conn *conn)
{
	struct site *site = conn->site;
	if (conn_client(conn)->is_spare)
		reserved_fds_refill(site);
	workers_count_client(site, -1);
	client_snapshot_strike(site, conn_client(conn));
	slab_put(site->client_slab, conn_client(conn));
}

static const struct conn_kind client_kind = {
    .letter = 'C',
    .name_it = client_name_it,
    .rows = message_front_rows,
    .destroy = client_destroy,
};

struct client *client_new(struct site *site, const struct conn_ops *ops)
{
	struct client *client = slab_get(site->client_slab);

	client->auth_method = AUTH_NONE;
	conn_init(&client->conn, site, &client_kind, ops);
	vars_init(&client->params.vars, site->vars);
	client_enlist(client);
	workers_count_client(site, 1);
	return client;
}

static struct list *list_of(const struct client *client)
{
	struct site *site = client->conn.site;

	if (!client->is_settled)
		return &site->login_clients;
	return client->is_cancel ? &site->cancel_clients : &site->clients;
}

void client_enlist(struct client *client)
{
	list_push_back(list_of(client), &client->site_node);
}

void client_delist(struct client *client)
{
	struct site *site = client->conn.site;
	struct list *list = list_of(client);

	list_walk_leave(&site->client_walk, list, &client->site_node);
	list_walk_leave(&site->idle_walk, list, &client->site_node);
	list_remove(list, &client->site_node);
}

enum strangers_verdict client_appears(struct client *client)
{
	const struct site *site = client->conn.site;

	if (client->is_unix_owner)
		return STRANGERS_FIT;
	client->is_stranger = true;
	return strangers_enter(
	    site->strangers, &client->conn.remote, site_settings(site));
}

void client_prove(struct client *client)
{
	if (client->is_stranger)
		strangers_leave(client->conn.site->strangers, &client->conn.remote);
	client->is_stranger = false;
}

void client_settle(struct client *client)
{
	client_prove(client);
	list_remove(list_of(client), &client->site_node);
	client->is_settled = true;
	client_enlist(client);
}

const struct conn *client_of_request(const struct request *request)
{
	return &request_client(request)->conn;
}

void client_leave(struct client *client)
{
	struct site *site = client->conn.site;
	struct pool *pool = client->request.in_pool.pool;

	if (pool) {
		pool_part(&client->request.in_pool);
		pool_free_if_unused(pool);
	}
	cancel_keys_remove(site->cancel_keys, &client->cancel_key);
	if (client->is_counted) {
		user_leave(client->user);
		database_leave(client->database);
	}
	if (client->database)
		database_release(client->database);
	client->is_counted = false;
	client->user = NULL;
	client->database = NULL;
	vars_done(&client->params.vars);
	mem_free(client->options);
	client->options = NULL;
	if (client->params.asked)
		vars_done(client->params.asked);
	mem_free(client->params.asked);
	client->params.asked = NULL;
	mem_free(client->params.kept);
	mem_free(client->params.startup);
	client->params.kept = client->params.startup = NULL;
	prepared_names_clear(&client->names);
	client_prove(client);
	client_delist(client);
}

/* ---- errors and notices ---- */

void client_say(struct client *client, struct buf *buf)
{
	const struct server *server = client_server(client);

	assert(!server || !server->pipeline.is_amid);
	if (!client->conn.is_doomed && client_may_be_told(client))
		conn_send(&client->conn, buf);
	else
		buf_clear(buf);
}

void client_put_status(struct client *client, size_t i, const char *value)
{
	struct buf status;

	buf_init(&status, 0);
	codec_put_parameter_status(
	    &status, vars_schema_name(client->conn.site->vars, i), value);
	client_say(client, &status);
	buf_done(&status);
}

/* The optional fields of an error; NULL: none. */
struct elaboration {
	const char *detail, *hint;
};

static void log_error_of(
    const struct client *client, const char *text, const char *detail)
{
	conn_log(&client->conn, LEVEL_WARNING | KIND_POOLER_ERRORS,
	    detail ? "pooler error: %s\n%s" : "pooler error: %s", text, detail);
}

static void send_error(struct client *client, const char *severity,
    const char *sqlstate, const char *text, const struct elaboration *more)
{
	struct buf buf;

	if (!client_may_be_told(client))
		return;
	buf_init(&buf, 0);
	codec_put_error(&buf, severity, sqlstate, text, more->detail, more->hint);
	conn_send(&client->conn, &buf);
	buf_done(&buf);
}

static void client_tell(struct client *client, const char *severity,
    const char *sqlstate, const char *text, const struct elaboration *more)
{
	log_error_of(client, text, more->detail);
	send_error(client, severity, sqlstate, text, more);
}

static void client_end(struct client *client, const char *sqlstate, const char *text,
    const struct elaboration *more)
{
	if (client->conn.is_doomed)
		return;
	conn_doom(&client->conn, "%s", text);
	client_tell(client, "FATAL", sqlstate, text, more);
}

void client_fatal_text(struct client *client, const char *sqlstate, const char *text)
{
	if (!client->conn.is_doomed)
		client->conn.site->errors_told[error_of_text(text)]++;
	char detail[LIMIT_TEXT];

	client_end(client, sqlstate, text,
	    &(struct elaboration){limit_describe_hosts(client, text, detail), NULL});
}

void client_fatal_detail(
    struct client *client, const char *sqlstate, enum error_id id, const char *detail)
{
	if (client->conn.is_doomed)
		return;
	client->conn.site->errors_told[id]++;
	client_end(
	    client, sqlstate, error_text(id), &(struct elaboration){detail, NULL});
}

/* DETAIL and HINT of an error: the value of the limit that has caused it, in `text`,
 * and what to do. */
static struct elaboration elaborate(
    const struct client *client, enum error_id id, char text[LIMIT_TEXT])
{
	const char *setting = error_setting(id);

	if (!setting)
		return (struct elaboration){NULL, NULL};
	return (struct elaboration){
	    *setting ? limit_describe(client, setting, text) : NULL, error_remedy(id)};
}

void client_fatal(struct client *client, enum error_id id, ...)
{
	char text[512], detail[LIMIT_TEXT];
	struct elaboration more;
	va_list ap;

	if (client->conn.is_doomed)
		return;
	client->conn.site->errors_told[id]++;
	va_start(ap, id);
	error_vprint(text, sizeof(text), id, ap);
	va_end(ap);
	more = elaborate(client, id, detail);
	client_end(client, error_sqlstate(id), text, &more);
}

void client_verror(struct client *client, enum error_id id, va_list ap)
{
	char text[CLIENT_ERROR_MAX], detail[LIMIT_TEXT];
	struct elaboration more = elaborate(client, id, detail);

	client->conn.site->errors_told[id]++;
	error_vprint(text, sizeof(text), id, ap);
	client_tell(client, "ERROR", error_sqlstate(id), text, &more);
}

void client_error(struct client *client, enum error_id id, ...)
{
	va_list ap;

	va_start(ap, id);
	client_verror(client, id, ap);
	va_end(ap);
}

void client_error_detail(struct client *client, enum error_id id, const char *detail)
{
	client->conn.site->errors_told[id]++;
	log_error_of(client, error_text(id), NULL);
	send_error(client, "ERROR", error_sqlstate(id), error_text(id),
	    &(struct elaboration){detail, NULL});
}

void client_notice(struct client *client, const char *text)
{
	struct buf buf;

	if (!client_may_be_told(client))
		return;
	buf_init(&buf, 0);
	codec_put_notice(&buf, text, NULL);
	conn_send(&client->conn, &buf);
	buf_done(&buf);
}

bool client_is_http(const uint8_t *bytes, size_t have)
{
	static const char *const methods[] = {
	    "GET ", "HEAD ", "POST ", "OPTIONS ", "PRI "};
	bool is_method = false;

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		is_method |= have >= 4 && memcmp(bytes, methods[i], 4) == 0;
	return is_method;
}

void client_malformed(struct conn *conn, const uint8_t *bytes, size_t have)
{
	char hex[2 * 8 + 1] = "";
	for (size_t i = 0; i < have && i < 8; i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	client_fatal(conn_client(conn),
	    client_is_http(bytes, have) ? ERROR_HTTP_REQUEST : ERROR_BAD_HEADER, hex);
}

/* ---- messages in transit ---- */

struct server *client_server(const struct client *client)
{
	const struct slot *slot = client->request.in_pool.slot;
	return slot ? slot_server(slot) : NULL;
}

bool client_is_sending_message(const struct client *client)
{
	return client->conn.passing > 0 && !client->is_dropping;
}

bool client_may_be_told(const struct client *client)
{
	const struct server *server = client_server(client);
	return !server || pipeline_may_speak(&server->pipeline);
}
