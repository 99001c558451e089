/*
 * Opens server connections: chooses the host, looks up its name, connects and logs in.
 * It reports to the broker through server_events.
 */
#include "broker/dial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/dial_attempt.h"
#include "broker/dial_auth.h"
#include "broker/dial_role.h"
#include "broker/dial_turn.h"
#include "broker/server_tls.h"
#include "pool/hosts_role.h"
#include "session/client.h"
#include "session/server.h"
#include "wire/codec.h"
#include "wire/message.h"

void dial_init(struct site *site)
{
	site->dial_slab = slab_new(&site->mem, "dial_cache", sizeof(struct dial));
}

struct buf *dial_untracked(struct server *server)
{
	return &server->dial->untracked;
}

static struct server *dial_new(struct site *site, const struct conn_ops *ops)
{
	struct server *server = server_new(site, ops);
	server->dial = slab_get(site->dial_slab);
	server->dial->server = server;
	buf_init(&server->dial->untracked, LOGIN_MESSAGE_MAX);
	site->login_server_count++;
	return server;
}

/* The phases of an attempt in their order; the middle two only with TLS. */
static const struct conn_ops connecting_ops, asking_ops, securing_ops, dial_ops;

/* ---- failure ---- */

static void log_failure(
    struct server *server, enum log_kind kind, const char *what, const char *why)
{
	conn_log(&server->conn, (unsigned)dial_log_level(server, why) | (unsigned)kind,
	    "%s: %s", what, why);
}

static void dial_ended(struct conn *conn, const struct err *err)
{
	struct server *server = conn_server(conn);
	if (stream_is_open(&conn->stream) && conn->stream.connecting) {
		log_failure(server, KIND_SERVERS, "could not connect",
		    err ? err->text : "closed");
		dial_fail_network(server, "connect failed");
		return;
	}
	if (err && conn->ops == &securing_ops)
		log_failure(server, KIND_TLS, "TLS handshake error", err->text);
	else
		server_log_loss(server, err);
	dial_fail_network(server, error_text(ERROR_SERVER_CRASHED));
}

static void dial_expired(struct conn *conn)
{
	dial_fail_network(conn_server(conn), "connect timeout");
}

static void dial_malformed(struct conn *conn, const uint8_t *bytes, size_t have)
{
	server_log_header(conn_server(conn), bytes, have);
	conn->site->protocol_errors++;
	dial_fail_network(conn_server(conn), error_text(ERROR_SERVER_BAD_HEADER));
}

static void dial_closed(struct conn *conn, const char *reason)
{
	struct server *server = conn_server(conn);
	struct client *replica = server_client(server);
	if (replica)
		client_fatal(replica, error_of_reason(reason), reason);
	server_leave(server, reason);
	dial_turn_leave(server->dial);
	dial_free(server);
}

/* ---- login ---- */

/* The parameters of a replication client are in its server's startup packet, because no
 * SET can follow (protocol.md 14).  If a parameter is there twice, the server takes the
 * last one. */
static void dial_put_replica(
    struct buf *buf, const struct client *client, const char *database_options)
{
	const struct vars_schema *schema = client->conn.site->vars;
	struct buf options;

	codec_put_param(buf, "replication", client_replication_word(client));
	for (size_t i = 0; i < vars_schema_count(schema); i++)
		if (vars_get(&client->vars, i) && client_is_own(client, i))
			codec_put_param(buf, vars_schema_name(schema, i),
			    vars_get(&client->vars, i));
	if (!client->options)
		return;
	buf_init(&options, 0);
	if (database_options)
		buf_printf(&options, "%s ", database_options);
	buf_put_text(&options, client->options);
	codec_put_param(buf, "options", buf_text(&options));
	buf_done(&options);
}

static void dial_send_startup(struct server *server)
{
	const struct pool *pool = server->seat.pool;
	const struct database_config *db = pool->database->config;
	const struct client *replica = server_client(server);
	const struct {
		const char *name, *value;
	} params[] = {
	    {"database", db->dbname},
	    {"client_encoding", db->client_encoding},
	    {"datestyle", db->datestyle},
	    {"timezone", db->timezone},
	    {"application_name", db->application_name},
	    {"options", db->options},
	};
	struct buf buf;
	buf_init(&buf, 0);
	server->dial->version = pool->speaks_3_0 ? PROTOCOL_3_0 : PROTOCOL_3_2;
	size_t at = codec_begin_startup(&buf, server->dial->version);
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
		if (params[i].value)
			codec_put_param(&buf, params[i].name, params[i].value);
	for (size_t i = 0; i < db->param_count; i++)
		codec_put_param(&buf, db->params[i].name, db->params[i].value);
	if (replica)
		dial_put_replica(&buf, replica, db->options);
	codec_put_param(&buf, "user", pool->user->name);
	codec_end_startup(&buf, at);
	conn_send(&server->conn, &buf);
	buf_done(&buf);
}

static const struct database_config *dial_database(const struct server *server)
{
	return server->seat.pool->database->config;
}

/* Continues after each step of beginning TLS. */
static void dial_go_on(struct server *server, enum tls_begin begin, const char *reason)
{
	switch (begin) {
	case TLS_BEGIN_CLEAR:
		conn_hand_on(&server->conn, &dial_ops);
		dial_send_startup(server);
		break;
	case TLS_BEGIN_ASKED:
		conn_hand_on(&server->conn, &asking_ops);
		break;
	case TLS_BEGIN_STARTED:
		conn_hand_on(&server->conn, &securing_ops);
		break;
	case TLS_BEGIN_REFUSED:
		dial_fail_network(server, reason);
	}
}

static enum step dial_tls_answer(
    struct conn *conn, const uint8_t *p, size_t len, size_t *taken)
{
	struct server *server = conn_server(conn);
	const char *reason = NULL;
	(void)taken;

	enum tls_begin begin = server_tls_answer(
	    &server->conn, server->host, dial_database(server), p, len, &reason);

	dial_go_on(server, begin, reason);
	return STEP_NEXT;
}

static void dial_secured(struct conn *conn)
{
	char text[TLS_TEXT];

	conn_log(conn, LEVEL_LOG | KIND_CONNECTIONS, "SSL established: %s",
	    conn_tls_text(conn, text, "no"));
	conn_hand_on(conn, &dial_ops);
	dial_send_startup(conn_server(conn));
}

static void dial_connected(struct conn *conn)
{
	struct server *server = conn_server(conn);
	const unsigned what = LEVEL_LOG | KIND_CONNECTIONS;
	const char *reason = NULL;
	enum tls_begin begin;
	char text[SOCK_PORT_TEXT];
	struct sock_addr local = {.family = AF_UNSPEC};
	unsigned uid;

	if (conn->remote.family == AF_UNIX)
		sock_peer(conn->stream.fd, &conn->peer_pid, &uid);
	if (log_is_on(conn->site->log, what)) {
		if (conn->remote.family == AF_UNIX ||
		    sock_local(conn->stream.fd, &local) < 0)
			conn_log(conn, what, "new connection to server");
		else
			conn_log(conn, what, "new connection to server (from %s)",
			    sock_addr_text(&local, 0, text));
	}
	begin = server_tls_begin(
	    &server->conn, server->host, dial_database(server), &reason);
	dial_go_on(server, begin, reason);
}

/* The classes of SQLSTATE with which PostgreSQL refuses a login that it has understood.
 */
static bool is_about_login(const char *sqlstate)
{
	static const char *const classes[] = {
	    "22", "28", "3D", "42", "53", "55", "57", "58"};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (strncmp(sqlstate, classes[i], strlen(classes[i])) == 0)
			return true;
	return false;
}

/* Servers from before 2017, and some proxies, refuse an unknown protocol version
 * instead of naming one that they support.  Proxies do so with SQLSTATEs of their own
 * choice. */
static bool is_version_refused(const struct dial *dial, const struct error_fields *f)
{
	return dial->version != PROTOCOL_3_0 && dial->answers == 1 &&
	       !is_about_login(f->sqlstate);
}

static enum step dial_again(struct server *server)
{
	struct client *replica = server_client(server);

	server->seat.pool->speaks_3_0 = true;
	conn_doom(&server->conn, "server does not speak protocol 3.2");
	pool_dial_again(&server->seat, conn_now(&server->conn));
	if (replica)
		replica->request.ops->retried(&replica->request);
	return STEP_CLOSE;
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

	if (hosts_are_awaited(server->seat.pool->database))
		return is_coming || is_going ? DIAL_NOT_YET : DIAL_LOGIN;
	return is_coming && !server->seat.is_replication ? DIAL_NOT_YET : DIAL_LOGIN;
}

static enum step dial_error(struct server *server, const struct message *m)
{
	struct error_fields f;
	enum dial_failure kind;

	codec_read_error(message_body(m), message_body_len(m), &f);
	if (!*f.message)
		f.message = "no reason given";
	if (server->dial->ran_connect_query) {
		conn_log(&server->conn, LEVEL_ERROR | KIND_SERVERS,
		    "S: error while executing exec_on_query: %s: %s", f.severity,
		    f.message);
		return STEP_NEXT;
	}
	if (is_version_refused(server->dial, &f))
		return dial_again(server);
	kind = failure_of(server, &f);
	if (server->seat.is_replication) {
		conn_log(&server->conn, LEVEL_ERROR | KIND_SERVERS,
		    "S: login failed: %s: %s", f.severity, f.message);
		dial_fail(server, kind, error_text(ERROR_LOGIN_FAILED),
		    error_sqlstate(ERROR_LOGIN_FAILED), error_text(ERROR_LOGIN_FAILED));
		return STEP_CLOSE;
	}
	log_put(server->conn.site->log,
	    dial_log_level(server, f.message) | KIND_SERVERS, NULL,
	    "server login failed: %s %s", f.severity, f.message);
	dial_fail(server, kind, f.message, f.sqlstate, f.message);
	return STEP_CLOSE;
}

/* NegotiateProtocolVersion: an older version than the one asked for is accepted. */
static enum step dial_negotiated(struct server *server, const struct message *m)
{
	const struct dial *dial = server->dial;
	uint32_t newest;

	if (dial->version != PROTOCOL_3_0 && dial->answers == 1 &&
	    codec_read_negotiate(message_body(m), message_body_len(m), &newest) == 0 &&
	    newest >= PROTOCOL_3_0 && newest <= dial->version)
		return STEP_NEXT;
	server->conn.site->protocol_errors++;
	dial_fail_network(server, "bad protocol negotiation");
	return STEP_CLOSE;
}

static enum step dial_key(struct server *server, const struct message *m)
{
	const uint8_t *key;
	size_t len;
	if (codec_read_backend_key(message_body(m), message_body_len(m), &key, &len) <
	    0) {
		dial_fail_network(server, "bad cancel key");
		return STEP_CLOSE;
	}
	mem_free(server->key);
	server->key = mem_dup(key, len);
	server->key_len = len;
	server->remote_pid = get_u32(key);
	return STEP_NEXT;
}

/* The connect_query, or NULL.  A walsender of physical replication runs no SQL. */
static const char *dial_connect_query(const struct server *server)
{
	const struct client *replica = server_client(server);
	if (replica && replica->replication == REPLICATION_PHYSICAL)
		return NULL;
	return server->seat.pool->database->config->connect_query;
}

static enum step dial_ready(struct server *server, const struct message *m)
{
	struct site *site = server->conn.site;
	const char *query = dial_connect_query(server);
	uint8_t status;

	if (codec_read_ready(message_body(m), message_body_len(m), &status) < 0) {
		dial_fail_network(server, error_text(ERROR_BAD_PACKET));
		return STEP_CLOSE;
	}
	if (dial_role_ask(server))
		return STEP_NEXT;
	if (!server->dial->ran_connect_query && !dial_role_may_stay(server))
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
	if (!server_is_between_messages(server)) {
		server_log_unasked(server);
		site->protocol_errors++;
		dial_fail_network(server, error_text(ERROR_BAD_PACKET));
		return STEP_CLOSE;
	}
	server->status = status;
	server->noted = 0;
	server->is_ready = true;
	server->last_us = conn_now(&server->conn);
	conn_set_deadline(&server->conn, 0);
	site->server_events->logged_in(server);
	dial_free(server);
	return STEP_NEXT;
}

static enum step dial_parameter(struct server *server, const struct message *m)
{
	struct buf *untracked = &server->dial->untracked;
	const char *name, *value;
	int i;

	if (codec_read_parameter_status(
		message_body(m), message_body_len(m), &name, &value) < 0) {
		server->conn.site->protocol_errors++;
		dial_fail_network(server, error_text(ERROR_SERVER_BAD_PARAMETER));
		return STEP_CLOSE;
	}
	if (server_note_parameter(server, m, NULL, untracked) < 0)
		return STEP_CLOSE;
	i = vars_schema_find(server->conn.site->vars, name);
	if (server->dial->ran_connect_query && i >= 0 && i < EFFECTS_PARAMETERS)
		server->pinned |= UINT64_C(1) << i;
	if (untracked->failed) {
		dial_fail_network(server, error_text(ERROR_OUT_OF_MEMORY));
		return STEP_CLOSE;
	}
	return STEP_NEXT;
}

static enum step dial_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	char letter[MESSAGE_LETTER], name[MESSAGE_NAME];

	if (!message_is_whole(m) && m->size <= LOGIN_MESSAGE_MAX)
		return STEP_MORE;
	if (m->size > LOGIN_MESSAGE_MAX) {
		server_log_header(server, m->bytes, m->have);
		dial_fail_network(server, error_text(ERROR_SERVER_BAD_HEADER));
		return STEP_CLOSE;
	}
	server->dial->answers++;
	if (server->dial->is_asking_role && m->type != 'S' && m->type != 'Z')
		return dial_role_answer(server, m);
	switch (m->type) {
	case 'S':
		return dial_parameter(server, m);
	case 'v':
		return dial_negotiated(server, m);
	case 'E':
		return dial_error(server, m);
	case 'N':
		return STEP_NEXT;
	case 'Z':
		if (!server->dial->is_let_in)
			break;
		return dial_ready(server, m);
	case 'R':
		return dial_auth(server, m);
	case 'K':
		return dial_key(server, m);
	}
	if (server->dial->ran_connect_query)
		return STEP_NEXT;
	conn_log(conn, LEVEL_ERROR | KIND_PROTOCOL, "unknown pkt from server: '%s'%s",
	    message_letter(m->type, letter), message_back_name(m->type, name));
	conn->site->protocol_errors++;
	dial_fail_network(server, "unknown pkt from server");
	return STEP_CLOSE;
}

static const struct conn_ops connecting_ops = {
    .name = "connecting",
    .message = dial_message,
    .connected = dial_connected,
    .expired = dial_expired,
    .malformed = dial_malformed,
    .ended = dial_ended,
    .closed = dial_closed,
};

static const struct conn_ops asking_ops = {
    .name = "asking for TLS",
    .message = dial_message,
    .raw = dial_tls_answer,
    .expired = dial_expired,
    .malformed = dial_malformed,
    .ended = dial_ended,
    .closed = dial_closed,
};

static const struct conn_ops securing_ops = {
    .name = "securing",
    .message = dial_message,
    .secured = dial_secured,
    .expired = dial_expired,
    .malformed = dial_malformed,
    .ended = dial_ended,
    .closed = dial_closed,
};

static const struct conn_ops dial_ops = {
    .name = "dial",
    .message = dial_message,
    .expired = dial_expired,
    .malformed = dial_malformed,
    .ended = dial_ended,
    .closed = dial_closed,
};

/* ---- the address ---- */

/* The words that log watchers know for a connect that fails at once. */
static void dial_name_failure(const struct sock_target *target, char *out, size_t size)
{
	static const char text[] = "sbuf_connect failed to connect to";
	char place[SOCK_PORT_TEXT];

	if (target->addr.family == AF_UNIX)
		snprintf(out, size, "%s unix:%s%s", text,
		    target->un.sun_path[0] ? "" : "@",
		    target->un.sun_path + !target->un.sun_path[0]);
	else
		snprintf(
		    out, size, "%s %s", text, sock_addr_text(&target->addr, 0, place));
}

/* Stores the address in the server, so that a cancel request finds the same one, and
 * connects. */
static void dial_connect(struct server *server, const struct sock_target *target)
{
	struct err err;
	if (conn_connect(&server->conn, target, &err) < 0) {
		const char *why = strstr(err.text, "(): ");
		char what[sizeof(target->un.sun_path) + 48];
		dial_name_failure(target, what, sizeof(what));
		log_failure(server, KIND_SERVERS, what, why ? why + 4 : err.text);
		dial_fail_network(server, "connect failed");
	}
}

static void dial_ip(struct server *server, struct sock_addr addr)
{
	struct sock_target target;
	addr.port = (uint16_t)server->port;
	sock_target_ip(&target, &addr);
	dial_connect(server, &target);
}

static void dial_unix(struct server *server, const char *dir)
{
	struct sock_target target;
	struct err err;
	server->unix_dir = mem_strdup(dir);
	server->conn.remote.family = AF_UNIX;
	if (sock_target_unix(&target, dir, server->port, &err) < 0) {
		log_failure(server, KIND_SERVERS, "could not connect", err.text);
		dial_fail_network(server, "connect failed");
		return;
	}
	dial_connect(server, &target);
}

static void dial_resolved(
    void *ctx, const struct sock_addr *addrs, size_t count, const struct err *err)
{
	struct server *server = ctx;
	server->dial->query = NULL;
	if (server->conn.is_doomed)
		return;
	if (count == 0) {
		conn_log(&server->conn, dial_log_level(server, err->text) | KIND_DNS,
		    "DNS lookup failed: %s: %s", server->host, err->text);
		dial_fail_network(server, "server DNS lookup failed");
		return;
	}
	dial_ip(server, addrs[0]);
}

/* The host's name, or the folder of its socket.  NULL or "": an abstract socket. */
static const char *dial_place(const struct server *server)
{
	if (server->host)
		return server->host;
	return site_settings(server->conn.site)->unix_socket_dir;
}

/* server_connect_rate allows the attempt now. */
static void dial_go(struct server *server)
{
	struct site *site = server->conn.site;
	const char *place = dial_place(server);
	uint64_t limit = scope_server_connect_timeout(scope_of_pool(server->seat.pool));
	struct sock_addr addr;

	if (server->conn.is_doomed)
		return;
	if (limit)
		conn_set_deadline(&server->conn, loop_now(site->loop) + limit);
	if (!place || *place == '/' || *place == '@' || *place == '\0')
		dial_unix(server, place ? place : "");
	else if (sock_addr_parse(place, 0, &addr) == 0)
		dial_ip(server, addr);
	else
		server->dial->query =
		    dns_lookup(site->dns, place, dial_resolved, server);
}

static void dial_for(struct site *site, struct pool *pool, struct client *replica)
{
	struct server *server = dial_new(site, &connecting_ops);
	const struct host *next;
	const char *place;

	if (replica) {
		server->seat.is_replication = true;
		server->seat.ask = &replica->request.ask;
	}
	pool_dialing(pool, &server->seat, loop_now(site->loop));
	next = server->seat.share->host;
	server->port = next->port;
	server->conn.unix_port = (uint16_t)server->port;
	if (next->name)
		server->host = mem_strdup(next->name);
	place = dial_place(server);
	if (dial_turn_take(server, place ? place : "", dial_go))
		dial_go(server);
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

	server->port = target->port;
	server->conn.unix_port = (uint16_t)target->port;
	if (target->host)
		server->host = mem_strdup(target->host);
	pool_dialing_cancel(target->seat.pool, &server->seat, loop_now(site->loop));
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
