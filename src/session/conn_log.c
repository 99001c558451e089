#include "session/conn_log.h"

#include <stdio.h>

#include "base/text.h"
#include "session/client.h"
#include "session/log_flood.h"

enum { TAG = 320, NAME = 220, SOURCE_MOST = 10 };

static void name_of(const struct conn *conn, struct conn_name *name)
{
	*name = (struct conn_name){.database = NULL};
	if (conn->ops->name_it)
		conn->ops->name_it(conn, name);
	else
		conn->kind->name_it(conn, name);
}

/* ---- plain ---- */

/* The name is cut so that the address behind it has room. */
static char *append_name(const struct conn *conn, char *at)
{
	const char *end = at + NAME;
	struct conn_name name;

	name_of(conn, &name);
	if (name.peer)
		return text_append_number(
		    text_append(at, end, "peer-"), end, (uint64_t)name.peer);
	at = text_append(at, end, name.database ? name.database : "(nodb)");
	return text_append(
	    text_append(at, end, "/"), end, name.user ? name.user : "(nouser)");
}

static const char *put_tag(const struct conn *conn, char out[TAG])
{
	char address[SOCK_PORT_TEXT];
	const char *end = out + TAG;
	const char letter[] = {conn->kind->letter, '\0'};

	if (conn->remote.family != AF_UNIX)
		sock_addr_text(&conn->remote, conn->unix_port, address);
	else if (conn->peer_pid > 0)
		snprintf(address, SOCK_PORT_TEXT, "unix(%d):%d", conn->peer_pid,
		    conn->unix_port);
	else
		snprintf(address, SOCK_PORT_TEXT, "unix:%d", conn->unix_port);
	char *at = text_append(out, end, letter);
	at = text_append_hex(text_append(at, end, "-0x"), end, (uintptr_t)conn);
	at = append_name(conn, text_append(at, end, ": "));
	text_append(text_append(at, end, "@"), end, address);
	return out;
}

/* ---- lines ---- */

static bool is_left_out(const struct conn *conn, unsigned what, const char *fmt)
{
	return !log_is_on(conn->site->log, what) ||
	       (conn->kind->letter == 'C' && !conn_client(conn)->is_settled &&
		   log_flood_holds(conn->site, &conn->remote, fmt));
}

static void __attribute__((format(printf, 4, 0))) put_line(const struct conn *conn,
    unsigned what, const struct log_fields *fields, const char *fmt, va_list ap)
{
	struct log *log = conn->site->log;
	struct log_parts parts = {.more = *fields};
	struct log_field source[SOURCE_MOST];
	char tag[TAG], address[SOCK_ADDR_TEXT];
	struct conn_name name;

	if (log_is_json(log)) {
		parts.source.at = source;
		bool is_unix = conn->remote.family == AF_UNIX;
		struct log_field *at = source;
		name_of(conn, &name);
		*at++ = log_field_text(
		    "side", conn->kind->letter == 'C' ? "client" : "server");
		*at++ = log_field_number("id", (int64_t)conn->id);
		*at++ = log_field_hex("ptr", (uintptr_t)conn);
		*at++ = log_field_text("database", name.database);
		*at++ = log_field_text("user", name.user);
		if (name.peer)
			*at++ = log_field_number("peer", name.peer);
		*at++ = log_field_text("address", sock_addr_ip(&conn->remote, address));
		*at++ = log_field_number(
		    "port", is_unix ? conn->unix_port : conn->remote.port);
		if (is_unix && conn->peer_pid > 0)
			*at++ = log_field_number("peer_pid", conn->peer_pid);
		parts.source.count = (size_t)(at - source);
	} else {
		parts.tag = put_tag(conn, tag);
	}
	log_put_parts(log, what, &parts, fmt, ap);
}

void conn_log(const struct conn *conn, unsigned what, const char *fmt, ...)
{
	static const struct log_fields none;
	va_list ap;

	if (is_left_out(conn, what, fmt))
		return;
	va_start(ap, fmt);
	put_line(conn, what, &none, fmt, ap);
	va_end(ap);
}

void conn_log_fields(const struct conn *conn, unsigned what,
    const struct log_fields *fields, const char *fmt, ...)
{
	va_list ap;

	if (is_left_out(conn, what, fmt))
		return;
	va_start(ap, fmt);
	put_line(conn, what, fields, fmt, ap);
	va_end(ap);
}

const char *conn_log_word(const struct conn *conn, char out[LOG_WORD], const char *name)
{
	return log_is_json(conn->site->log) ? name : log_word(out, name);
}

void conn_log_end(const struct conn *conn)
{
	uint64_t age_us = loop_now(conn->site->loop) - conn->connect_us;

	conn_log(conn, LEVEL_LOG | KIND_DISCONNECTIONS,
	    "closing because: %s (age=%llus)", conn->reason,
	    (unsigned long long)(age_us / 1000000));
}

bool conn_log_tls_failure(const struct conn *conn, const struct err *err)
{
	if (!err || !stream_has_tls_failure(&conn->stream) ||
	    !stream_tls(&conn->stream))
		return false;
	conn_log(conn, LEVEL_WARNING | KIND_TLS, "tls_sbufio_recv: read failed: %s",
	    err->text);
	return true;
}

void conn_log_phase(const struct conn *conn, const struct conn_ops *next)
{
	if (conn->ops != next)
		conn_log(conn, LEVEL_DEBUG | KIND_CONNECTIONS, "phase: %s -> %s",
		    conn->ops->name, next->name);
}

void conn_log_received(const struct conn *conn, uint8_t type, uint64_t size)
{
	if (type)
		conn_log(conn, LEVEL_TRACE | KIND_PROTOCOL, "received '%c', %llu bytes",
		    text_is_printable(type) ? type : '?', (unsigned long long)size);
	else
		conn_log(conn, LEVEL_TRACE | KIND_PROTOCOL,
		    "received a startup packet, %llu bytes", (unsigned long long)size);
}

void conn_log_sending(const struct conn *conn, size_t len)
{
	conn_log(
	    conn, LEVEL_TRACE | KIND_PROTOCOL, "sending %zu bytes of our own", len);
}
