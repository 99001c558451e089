#include "broker/dial_exchange.h"

#include <stdio.h>
#include <string.h>

#include "broker/dial_auth.h"
#include "broker/dial_kerberos.h"
#include "broker/dial_password.h"
#include "broker/server_tls.h"
#include "session/server.h"
#include "wire/codec.h"
#include "wire/message.h"

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
		const char *why = err ? err->text : "closed";
		log_failure(server, KIND_SERVERS, "could not connect", why);
		dial_fail_because(server, why, "connect failed");
		return;
	}
	/* such as the reason why the server refuses the ticket */
	if (dial_kerberos_is_at_work(server) ||
	    (server->dial->ticket && conn->is_parked)) {
		dial_kerberos_note_end(server);
		return;
	}
	if (err && conn->ops == &securing_ops) {
		struct err text;
		log_failure(server, KIND_TLS, "TLS handshake error", err->text);
		err_set(&text, "TLS handshake error: %s", err->text);
		dial_fail_network(server, text.text);
		return;
	}
	server_log_loss(server, err);
	dial_fail_network(server, error_text(ERROR_SERVER_CRASHED));
}

static void dial_expired(struct conn *conn)
{
	struct server *server = conn_server(conn);

	if (!dial_kerberos_expired(server))
		dial_fail_network(server, "connect timeout");
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

	server->dial->owner->closed(server, reason);
	dial_free(server);
}

/* ---- login ---- */

static void dial_send_startup(struct server *server)
{
	struct dial *dial = server->dial;
	const struct dial_identity who = dial_identity(server);
	const struct database_config *db = who.db;
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
	dial->version = *who.speaks_3_0 ? PROTOCOL_3_0 : PROTOCOL_3_2;
	size_t at = codec_begin_startup(&buf, dial->version);
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
		if (params[i].value)
			codec_put_param(&buf, params[i].name, params[i].value);
	for (size_t i = 0; i < db->param_count; i++)
		codec_put_param(&buf, db->params[i].name, db->params[i].value);
	if (dial->owner->put_params)
		dial->owner->put_params(server, &buf);
	codec_put_param(&buf, "user", who.user);
	codec_end_startup(&buf, at);
	conn_send(&server->conn, &buf);
	buf_done(&buf);
}

static const struct database_config *dial_database(const struct server *server)
{
	return dial_identity(server).db;
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
	const unsigned what =
	    (server->dial->owner->is_quiet ? LEVEL_DEBUG : LEVEL_LOG) |
	    KIND_CONNECTIONS;
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

static enum step dial_error(struct server *server, const struct message *m)
{
	struct error_fields f;

	codec_read_error(message_body(m), message_body_len(m), &f);
	if (!*f.message)
		f.message = "no reason given";
	/* Servers from before 2017, and some proxies, refuse an unknown protocol
	 * version instead of naming one that they support.  Proxies do so with
	 * SQLSTATEs of their own choice. */
	if (server->dial->version != PROTOCOL_3_0 && server->dial->answers == 1 &&
	    !is_about_login(f.sqlstate)) {
		*dial_identity(server).speaks_3_0 = true;
		conn_doom(&server->conn, "server does not speak protocol 3.2");
		server->dial->owner->retried(server);
		return STEP_CLOSE;
	}
	if (dial_kerberos_refused(server, f.sqlstate))
		return STEP_CLOSE;
	if (dial_password_refused(server, f.sqlstate)) {
		conn_doom(&server->conn, "server refuses the password");
		server->dial->owner->retried(server);
		return STEP_CLOSE;
	}
	server->dial->owner->refused(server, &f);
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

enum step dial_unknown(struct server *server, const struct message *m)
{
	char letter[MESSAGE_LETTER];

	conn_log(&server->conn, LEVEL_ERROR | KIND_PROTOCOL,
	    "unknown pkt from server: '%s'", message_letter(m->type, letter));
	server->conn.site->protocol_errors++;
	dial_fail_network(server, "unknown pkt from server");
	return STEP_CLOSE;
}

static enum step dial_ready(struct server *server, const struct message *m)
{
	uint8_t status;

	if (codec_read_ready(message_body(m), message_body_len(m), &status) < 0) {
		dial_fail_network(server, error_text(ERROR_BAD_PACKET));
		return STEP_CLOSE;
	}
	server->dial->is_over = true;
	dial_password_accepted(server);
	return server->dial->owner->ready(server, status);
}

static enum step dial_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	struct dial *dial = server->dial;

	if (dial_kerberos_is_at_work(server))
		return STEP_PARK;
	if (!message_is_whole(m) && m->size <= LOGIN_MESSAGE_MAX)
		return STEP_MORE;
	if (m->size > LOGIN_MESSAGE_MAX) {
		server_log_header(server, m->bytes, m->have);
		dial_fail_network(server, error_text(ERROR_SERVER_BAD_HEADER));
		return STEP_CLOSE;
	}
	dial->answers++;
	if (dial->is_over && m->type != 'Z' && m->type != 'S')
		return dial->owner->message(server, m);
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
		if (!dial->is_let_in)
			break;
		return dial_ready(server, m);
	case 'R':
		return dial_auth(server, m);
	case 'K':
		return dial_key(server, m);
	}
	return dial_unknown(server, m);
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

/* Stores the address in the server, so that a cancel request finds the same one, and
 * connects. */
static void dial_connect(struct server *server, const struct sock_target *target)
{
	struct err err;
	char place[SOCK_PORT_TEXT];
	if (conn_connect(&server->conn, target, &err) < 0) {
		const char *why = strstr(err.text, "(): ");
		char what[sizeof(target->un.sun_path) + 48];
		/* the words that log watchers know for a connect that fails at once */
		static const char text[] = "sbuf_connect failed to connect to";
		if (target->addr.family == AF_UNIX)
			snprintf(what, sizeof(what), "%s unix:%s%s", text,
			    target->un.sun_path[0] ? "" : "@",
			    target->un.sun_path + !target->un.sun_path[0]);
		else
			snprintf(what, sizeof(what), "%s %s", text,
			    sock_addr_text(&target->addr, 0, place));
		why = why ? why + 4 : err.text;
		log_failure(server, KIND_SERVERS, what, why);
		dial_fail_because(server, why, "connect failed");
	}
}

static void dial_ip(struct server *server, struct sock_addr addr)
{
	struct sock_target target;
	addr.port = (uint16_t)server->port;
	sock_target_ip(&target, &addr);
	dial_connect(server, &target);
}

static void dial_resolved(
    void *ctx, const struct sock_addr *addrs, size_t count, const struct err *err)
{
	struct server *server = ctx;

	(void)addrs;
	server->dial->query = NULL;
	if (server->conn.is_doomed)
		return;
	if (count == 0) {
		conn_log(&server->conn, dial_log_level(server, err->text) | KIND_DNS,
		    "DNS lookup failed: %s: %s", server->host, err->text);
		struct err text;
		err_set(&text, "DNS lookup failed: %s: %s", server->host, err->text);
		dial_fail_because(server, text.text, "server DNS lookup failed");
		return;
	}
	server->dial->is_looked_up = true;
	dial_ip(server, dns_turn(server->conn.site->dns, dial_place(server)));
}

void dial_go(struct server *server)
{
	struct site *site = server->conn.site;
	const char *place = dial_place(server), *end = strchr(place, '/');
	uint64_t limit = scope_server_connect_timeout(dial_identity(server).scope);
	struct sock_addr addr;
	struct sock_target target;
	struct err err;

	if (server->conn.is_doomed)
		return;
	if (limit)
		conn_set_deadline(&server->conn, loop_now(site->loop) + limit);
	if (*place == '/' || *place == '@' || *place == '\0') {
		server->unix_dir = mem_strdup(place);
		server->conn.remote.family = AF_UNIX;
		if (sock_target_unix(&target, place, server->port, &err) < 0) {
			log_failure(
			    server, KIND_SERVERS, "could not connect", err.text);
			dial_fail_because(server, err.text, "connect failed");
			return;
		}
		dial_connect(server, &target);
	} else if (sock_addr_parse(end ? end + 1 : place, 0, &addr) == 0)
		dial_ip(server, addr);
	else
		server->dial->query =
		    dns_lookup(site->dns, place, dial_resolved, server);
}

struct server *dial_new(struct site *site, const struct dial_owner *owner)
{
	struct server *server = server_new(site, &connecting_ops);
	server->dial = slab_get(site->dial_slab);
	server->dial->server = server;
	server->dial->owner = owner;
	buf_init(&server->dial->untracked, LOGIN_MESSAGE_MAX);
	site->login_server_count++;
	return server;
}

void dial_aim(struct server *server, const char *host, int port)
{
	server->port = port;
	server->conn.unix_port = (uint16_t)port;
	if (host)
		server->host = mem_strdup(host);
}
