#include "login/startup_phase.h"

#include <unistd.h>

#include "cancel/cancel.h"
#include "login/evict.h"
#include "login/login.h"
#include "login/long_parts.h"
#include "login/proxy.h"
#include "session/conn_move.h"
#include "session/tls_setup.h"
#include "wire/message.h"
#include "wire/proxy_header.h"

enum { TLS_HANDSHAKE_RECORD = 0x16 }; /* RFC 8446 section 5.1 */

static const struct conn_ops startup_ops;

static bool has_tls(const struct conn *conn)
{
	return conn->remote.family != AF_UNIX && tls_setup_client(conn->site->tls);
}

/* An SSLRequest or GSSENCRequest must come alone: bytes behind it came in clear and
 * would be taken for encrypted ones. */
static enum step startup_check_alone(
    struct client *client, const struct message *m, enum error_id extra_bytes)
{
	if (m->size != 8) {
		client_malformed(&client->conn, m->bytes, m->have);
		return STEP_CLOSE;
	}
	if (m->behind > 0) {
		client_fatal(client, extra_bytes);
		return STEP_CLOSE;
	}
	return STEP_NEXT;
}

static enum step startup_answer(struct client *client, const uint8_t *answer)
{
	stream_put(&client->conn.stream, NULL, answer, 1);
	return STEP_NEXT;
}

static enum step startup_encrypt(struct conn *conn, const uint8_t *initial, size_t len)
{
	conn_hand_on(conn, &startup_ops);
	return conn_secure(conn, tls_setup_client(conn->site->tls), NULL, initial, len,
		   "failed to accept SSL") < 0
		   ? STEP_CLOSE
		   : STEP_NEXT;
}

static enum step startup_ssl(struct client *client, const struct message *m)
{
	static const uint8_t yes = 'S', no = 'N';
	struct conn *conn = &client->conn;

	if (conn->stream.tls) {
		conn_doom(conn, "SSL req inside SSL");
		return STEP_CLOSE;
	}
	if (startup_check_alone(client, m, ERROR_UNENCRYPTED_SSL) != STEP_NEXT)
		return STEP_CLOSE;
	if (!has_tls(conn))
		return startup_answer(client, &no);
	startup_answer(client, &yes);
	return startup_encrypt(conn, NULL, 0);
}

static enum step startup_message(struct conn *conn, const struct message *m)
{
	struct client *client = conn_client(conn);

	if (m->type == 'p') {
		client_fatal(client, ERROR_PASSWORD_BEFORE_STARTUP);
		return STEP_CLOSE;
	}
	if (m->type != 0) {
		if (client_is_http(m->bytes, m->have))
			client_malformed(conn, m->bytes, m->have);
		else
			conn_doom(conn, "%s", error_text(ERROR_BAD_PACKET));
		return STEP_CLOSE;
	}
	/* Beyond max_client_conn only the console lets somebody in, whose packets are
	 * short: nothing long is kept there. */
	if (!message_is_whole(m) && m->have > LONG_PARTS_FROM &&
	    login_is_full(conn->site)) {
		client_fatal(client, ERROR_NO_MORE_CONNECTIONS);
		return STEP_CLOSE;
	}
	if (!message_is_whole(m)) {
		long_parts_make_room(client, m->have);
		return STEP_MORE;
	}
	switch (m->code) {
	case STARTUP_SSL:
		return startup_ssl(client, m);
	case STARTUP_GSSENC:
		if (startup_check_alone(client, m, ERROR_UNENCRYPTED_GSS) != STEP_NEXT)
			return STEP_CLOSE;
		return startup_answer(client, (const uint8_t *)"N");
	case STARTUP_CANCEL:
		/* 8 bytes of header, process id, secret */
		if (m->size >= 8 + 4 + 4 && m->size <= 8 + CANCEL_REQUEST_KEY_MAX)
			return cancel_begin(client, m);
		conn_doom(conn, "bad cancel request");
		return STEP_CLOSE;
	case PROTOCOL_V2:
		client_fatal(client, ERROR_OLD_PROTOCOL);
		return STEP_CLOSE;
	}
	if (m->code >> 16 != 3) {
		client_malformed(conn, m->bytes, m->have);
		return STEP_CLOSE;
	}
	if (tls_setup_client_mode(conn->site->tls) >= TLS_REQUIRE && has_tls(conn) &&
	    !conn->stream.tls) {
		client_fatal(client, ERROR_SSL_REQUIRED);
		return STEP_CLOSE;
	}
	return login_begin(client, m);
}

static void startup_arm(struct conn *conn)
{
	uint64_t limit = site_settings(conn->site)->client_login_timeout;
	conn_set_deadline(conn, limit ? conn->connect_us + limit : 0);
}

static void startup_expired(struct conn *conn)
{
	client_fatal(conn_client(conn), ERROR_LOGIN_TIMEOUT);
}

static void startup_ended(struct conn *conn, const struct err *err)
{
	if (conn_client(conn)->is_cancel)
		return; /* put off, it goes on without its socket */
	/* a lost connection is not reported as a failure of TLS */
	if (err && stream_has_tls_failure(&conn->stream) && !stream_tls(&conn->stream))
		conn_log(conn, LEVEL_WARNING | KIND_TLS, "TLS handshake error: %s",
		    err->text);
	conn_doom_quietly(conn, "client unexpected eof");
}

static void startup_closed(struct conn *conn, const char *reason)
{
	(void)reason;
	client_leave(conn_client(conn));
}

/* TLS may begin with the first byte, without being asked for (PostgreSQL 17, "SSL
 * Session Encryption"). */
static enum step startup_first(
    struct conn *conn, const uint8_t *p, size_t len, size_t *taken)
{
	(void)taken;
	if (len > 4 && proxy_header_begins(p, len))
		conn_log(conn, LEVEL_WARNING | KIND_PROTOCOL,
		    "PROXY header from an address that proxy_protocol_from does not "
		    "list");
	if (*p == TLS_HANDSHAKE_RECORD && has_tls(conn))
		return startup_encrypt(conn, p, len);
	conn_hand_on(conn, &startup_ops);
	return STEP_MORE;
}

static const struct conn_ops first_ops = {
    .name = "first bytes",
    .message = startup_message,
    .expired = startup_expired,
    .review = startup_arm,
    .malformed = client_malformed,
    .ended = startup_ended,
    .closed = startup_closed,
    .raw = startup_first,
};

/* The phase of the startup packet, in clear or inside TLS. */
static const struct conn_ops startup_ops = {
    .name = "startup",
    .message = startup_message,
    .expired = startup_expired,
    .review = startup_arm,
    .malformed = client_malformed,
    .ended = startup_ended,
    .closed = startup_closed,
};

void startup_phase_begin(struct site *site, int fd, const struct sock_addr *remote,
    bool is_unix, bool is_spare)
{
	const struct settings *settings = site_settings(site);
	struct client *client = client_new(site, &first_ops);
	struct conn *conn = &client->conn;
	enum strangers_verdict verdict = STRANGERS_FIT;
	unsigned uid;

	conn->remote = *remote;
	conn->unix_port = (uint16_t)settings->listen_port;
	client->is_spare = is_spare;
	if (is_unix && sock_peer(fd, &conn->peer_pid, &uid) == 0)
		client->is_unix_owner = uid == getuid();
	if (proxy_is_expected(client))
		proxy_expect(client, &first_ops);
	else
		verdict = client_appears(client);
	startup_arm(conn);
	/* With tcp_defer_accept the first bytes have come already. */
	if (!is_unix && settings->tcp_defer_accept)
		conn_open_recv_now(conn, fd);
	else
		conn_open(conn, fd);
	evict_for(client, verdict);
}

void startup_phase_admit(
    struct site *site, int fd, enum passed_from from, const uint8_t *bytes, size_t len)
{
	struct client *client = client_new(site, &startup_ops);

	client->passed_from = from;
	if (conn_restore(&client->conn, fd, 0, bytes, len) < 0)
		conn_doom(&client->conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
	startup_arm(&client->conn);
}

void startup_phase_admit_new(
    struct site *site, int fd, const struct sock_addr *remote, bool is_unix)
{
	startup_phase_begin(site, fd, remote, is_unix, false);
}

void startup_phase_readmit(struct client *client)
{
	struct conn *conn = &client->conn;

	conn_hand_on(conn, &startup_ops);
	startup_arm(conn);
}
