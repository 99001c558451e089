/*
 * Opens server connections for pools: chooses the host, and what follows the exchange
 * of the login: the role, and connect_query.  It reports to the broker through
 * server_events.
 */
#include "broker/dial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/dial_exchange.h"
#include "broker/dial_password.h"
#include "broker/dial_turn.h"
#include "pool/host_group.h"
#include "pool/hosts_role.h"
#include "pool/scopes.h"
#include "session/client.h"
#include "session/server.h"
#include "session/server_role.h"
#include "wire/codec.h"

void dial_init(struct site *site)
{
	site->dial_slab = slab_new(&site->mem, "dial_cache", sizeof(struct dial));
}

struct buf *dial_untracked(struct server *server)
{
	return &server->dial->untracked;
}

/* ---- who logs in ---- */

static struct dial_identity identity_of(const struct server *server)
{
	struct pool *pool = server->slot.pool;

	return (struct dial_identity){
	    .db = pool->database->config,
	    .scope = scope_of_pool(pool),
	    .user = pool->user->name,
	    .secret = pool_server_secret(pool),
	    .source = password_source_of(pool->database, pool->user),
	    .pass_through =
		pool->credentials.has_login_keys ? &pool->credentials.login_keys : NULL,
	    .cache = pool_server_scram_cache(pool),
	    .lane = pool->database->name,
	    .speaks_3_0 = &pool->speaks_3_0,
	};
}

/* The parameters of a replication client are in its server's startup packet, because no
 * SET can follow (protocol.md 14).  If a parameter is there twice, the server takes the
 * last one. */
static void put_params(const struct server *server, struct buf *buf)
{
	const struct client *client = server_client(server);
	const char *database_options = server->slot.pool->database->config->options;
	const struct vars_schema *schema = server->conn.site->vars;
	struct buf options;

	if (!client)
		return;
	codec_put_param(buf, "replication", client_replication_word(client));
	for (size_t i = 0; i < vars_schema_count(schema); i++)
		if (vars_get(&client->params.vars, i) && client_is_own(client, i))
			codec_put_param(buf, vars_schema_name(schema, i),
			    vars_get(&client->params.vars, i));
	if (!client->options)
		return;
	buf_init(&options, 0);
	if (database_options)
		buf_printf(&options, "%s ", database_options);
	buf_put_text(&options, client->options);
	codec_put_param(buf, "options", buf_text(&options));
	buf->failed = buf->failed || options.failed;
	buf_done(&options);
}

/* ---- failure ---- */

static enum log_level log_level(struct server *server, const char *why)
{
	(void)server;
	(void)why;
	return LEVEL_WARNING;
}

static void failed(struct server *server, enum dial_failure kind, const char *text,
    const char *sqlstate)
{
	struct pool *pool = server->slot.pool;
	struct client *replica = server_client(server);

	if (!pool)
		return;
	pool_dial_failed(&server->slot, kind, text, sqlstate, conn_now(&server->conn));
	if (replica && kind == DIAL_PASSWORD)
		client_fatal(replica, ERROR_NO_SERVER_PASSWORD);
	else if (replica && kind != DIAL_LOGIN && kind != DIAL_TICKET &&
		 hosts_has_candidate(pool, conn_now(&server->conn)))
		replica->request.ops->retried(&replica->request);
	else if (replica)
		client_fatal(replica, error_of_reason(text), text);
}

static void retried(struct server *server)
{
	struct client *replica = server_client(server);

	pool_dial_again(&server->slot, conn_now(&server->conn));
	if (replica)
		replica->request.ops->retried(&replica->request);
}

/* How an error at the login counts.  A server that starts up or shuts down is tried
 * again later, or another host is.  If the database has a single host that shuts down,
 * the clients get the error (protocol.md 10.4). */
static enum dial_failure failure_of(
    const struct server *server, const struct error_fields *f)
{
	bool is_coming = strcmp(f->sqlstate, SQLSTATE_CANNOT_CONNECT_NOW) == 0;
	bool is_going = strcmp(f->sqlstate, SQLSTATE_ADMIN_SHUTDOWN) == 0 ||
			strcmp(f->sqlstate, SQLSTATE_CRASH_SHUTDOWN) == 0;

	if (hosts_are_watched(server->slot.pool->database))
		return is_coming || is_going ? DIAL_NOT_YET : DIAL_LOGIN;
	return is_coming && !server->slot.is_replication ? DIAL_NOT_YET : DIAL_LOGIN;
}

static void refused(struct server *server, const struct error_fields *f)
{
	enum dial_failure kind = failure_of(server, f);

	if (server->slot.is_replication) {
		conn_log(&server->conn, LEVEL_ERROR | KIND_SERVERS,
		    "S: login failed: %s: %s", f->severity, f->message);
		dial_fail(server, kind, error_text(ERROR_LOGIN_FAILED),
		    error_sqlstate(ERROR_LOGIN_FAILED), error_text(ERROR_LOGIN_FAILED));
		return;
	}
	log_put(server->conn.site->log,
	    dial_log_level(server, f->message) | KIND_SERVERS, NULL,
	    "server login failed: %s %s", f->severity, f->message);
	dial_fail(server, kind, f->message, f->sqlstate, f->message);
}

static void closed(struct server *server, const char *reason)
{
	struct client *replica = server_client(server);

	if (replica)
		client_fatal(replica, error_of_reason(reason), reason);
	server_leave(server, reason);
	dial_turn_leave(server->dial);
}

/* ---- after the exchange ---- */

static enum step logged_in(struct server *server, uint8_t status)
{
	struct site *site = server->conn.site;
	const struct conn_ops *ops = server->conn.ops;

	if (!server_is_between_messages(server)) {
		/* the login has not failed: what follows it, such as the FATAL of
		 * pg_terminate_backend, ends this connection only */
		server_note_unasked(server);
		conn_doom(&server->conn, "idle server got dirty");
		struct client *replica = server_client(server);
		pool_lose_unused(&server->slot, conn_now(&server->conn));
		if (replica)
			replica->request.ops->retried(&replica->request);
		return STEP_CLOSE;
	}
	server->status = status;
	server->noted = 0;
	server->is_ready = true;
	server->last_us = conn_now(&server->conn);
	conn_set_deadline(&server->conn, 0);
	site->server_events->logged_in(server);
	/* one that the pool does not want closes with the attempt's functions; one that
	 * has a client already, for whom there is no memory, does not */
	if (!server->conn.is_doomed || server->conn.ops != ops)
		dial_free(server);
	return STEP_NEXT;
}

/* Does the server's host have a role that the database uses, as far as it reports? */
static bool may_stay(struct server *server)
{
	struct slot *slot = &server->slot;
	struct scope scope = scope_of_database(slot->pool->database);
	struct host_report report;
	char reason[128];

	server_role_read(server, &server->vars, &report);
	if (report.role != HOST_ROLE_UNKNOWN)
		hosts_learn(slot, &report, conn_now(&server->conn));
	if (hosts_is_fit(slot->pool, slot->pool_host->host))
		return true;
	const char *role = host_group_report_shown(&slot->pool_host->host->report);
	snprintf(reason, sizeof(reason),
	    "its host is not used: it is %s, target_session_attrs is %s",
	    role ? role : "up", setting_target_name(scope_target_session_attrs(scope)));
	dial_fail(
	    server, DIAL_UNFIT, reason, error_sqlstate(ERROR_CONNECTION_LOST), reason);
	return false;
}

static enum step ready(struct server *server, uint8_t status)
{
	const struct client *replica = server_client(server);
	const char *query = server->slot.pool->database->config->connect_query;

	/* a walsender of physical replication runs no SQL */
	if (replica && replica->replication == REPLICATION_PHYSICAL)
		query = NULL;
	if (!server->dial->ran_connect_query && !may_stay(server))
		return STEP_CLOSE;
	if (query && *query && !server->dial->ran_connect_query) {
		struct buf buf;
		server->dial->ran_connect_query = true;
		buf_init(&buf, 0);
		codec_put_query(&buf, query);
		conn_send(&server->conn, &buf);
		buf_done(&buf);
		return STEP_NEXT;
	}
	return logged_in(server, status);
}

static enum step message(struct server *server, const struct message *m)
{
	struct error_fields f;

	if (!server->dial->ran_connect_query)
		return dial_unknown(server, m);
	if (m->type != 'E')
		return STEP_NEXT;
	codec_read_error(message_body(m), message_body_len(m), &f);
	conn_log(&server->conn, LEVEL_ERROR | KIND_SERVERS,
	    "S: error while executing exec_on_query: %s: %s", f.severity,
	    *f.message ? f.message : "no reason given");
	return STEP_NEXT;
}

static const struct dial_owner slot_owner = {
    .identity = identity_of,
    .put_params = put_params,
    .log_level = log_level,
    .failed = failed,
    .refused = refused,
    .retried = retried,
    .ready = ready,
    .message = message,
    .closed = closed,
};

/* ---- the host ---- */

static void take_turn(struct server *server)
{
	if (dial_turn_take(server, dial_place(server), dial_go))
		dial_go(server);
}

static void dial_for(struct site *site, struct pool *pool, struct client *replica)
{
	struct server *server = dial_new(site, &slot_owner);
	const struct host *next;

	if (replica) {
		server->slot.is_replication = true;
		server->slot.request = &replica->request.in_pool;
	}
	pool_dialing(pool, &server->slot, loop_now(site->loop));
	next = server->slot.pool_host->host;
	dial_aim(server, next->name, next->port);
	dial_password_get(server, take_turn);
}

void dial_server(struct site *site, struct pool *pool)
{
	dial_for(site, pool, NULL);
}

void dial_replica(struct site *site, struct pool *pool, struct client *client)
{
	dial_for(site, pool, client);
}

struct server *dial_beside(
    struct server *target, const struct conn_ops *ops, bool *is_full)
{
	struct site *site = target->conn.site;
	struct server *server = server_new(site, ops);
	struct sock_target place;
	struct err err;
	int failed = 0;

	dial_aim(server, target->host, target->port);
	pool_dialing_cancel(target->slot.pool, &server->slot, loop_now(site->loop));
	if (target->unix_dir)
		failed = sock_target_unix(&place, target->unix_dir, target->port, &err);
	else
		sock_target_ip(&place, &target->conn.remote);
	errno = 0;
	if (failed == 0)
		failed = conn_connect(&server->conn, &place, &err);
	*is_full = failed && errno == EAGAIN;
	if (failed == 0)
		return server;
	conn_log(&server->conn, (*is_full ? LEVEL_DEBUG : LEVEL_WARNING) | KIND_SERVERS,
	    "could not connect: %s", err.text);
	server_retire(server, "connect failed");
	return NULL;
}
