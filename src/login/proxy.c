#include "login/proxy.h"

#include <string.h>

#include "base/networks.h"
#include "login/evict.h"
#include "wire/proxy_header.h"

/* The part of the header that has come so far; owned by the client until the header is
 * whole. */
struct proxy_input {
	struct buf bytes;
	const struct conn_ops *next; /* borrowed */
};

bool proxy_is_expected(const struct client *client)
{
	const char *list = site_settings(client->conn.site)->proxy_protocol_from;
	const struct sock_addr *from = &client->conn.remote;

	return list && *list && networks_have(list, from->family, from->ip);
}

static void proxy_free(struct client *client)
{
	buf_done(&client->proxy->bytes);
	mem_free(client->proxy);
	client->proxy = NULL;
}

static enum step proxy_refuse(struct conn *conn)
{
	conn_log(conn, LEVEL_WARNING | KIND_PROTOCOL,
	    "no valid PROXY header, although proxy_protocol_from lists this address");
	conn_doom(conn, "broken PROXY header");
	return STEP_CLOSE;
}

/* From here on the client has the address that the proxy names, for rules, views and
 * logs. */
static void proxy_take_address(struct client *client, const struct proxy_header *header)
{
	struct conn *conn = &client->conn;

	if (header->family == AF_UNSPEC)
		return;
	conn->remote =
	    (struct sock_addr){.family = header->family, .port = header->port};
	memcpy(conn->remote.ip, header->ip, sizeof(conn->remote.ip));
}

static enum step proxy_raw(
    struct conn *conn, const uint8_t *p, size_t len, size_t *taken)
{
	struct client *client = conn_client(conn);
	struct buf *bytes = &client->proxy->bytes;
	size_t before = bytes->len;
	struct proxy_header header;

	if (len > PROXY_HEADER_MAX - before)
		len = PROXY_HEADER_MAX - before;
	buf_put(bytes, p, len);
	switch (proxy_header_read(bytes->bytes, bytes->len, &header)) {
	case PROXY_HEADER_PARTIAL:
		return STEP_NEXT;
	case PROXY_HEADER_BROKEN:
		return proxy_refuse(conn);
	case PROXY_HEADER_WHOLE:
		break;
	}
	*taken = header.size - before;
	/* Process and account behind a unix socket are the proxy's and not the
	 * client's, whatever the header tells.  This includes LOCAL: only the proxy
	 * knows why it sends that. */
	client->is_proxied = true;
	client->is_unix_owner = false;
	client->conn.peer_pid = 0;
	proxy_take_address(client, &header);
	conn->ops = client->proxy->next;
	proxy_free(client);
	evict_for(client, client_appears(client));
	return STEP_NEXT;
}

/* This phase reads raw bytes, so no message can come. */
static enum step proxy_message(struct conn *conn, const struct message *m)
{
	(void)m;
	return proxy_refuse(conn);
}

static void proxy_expired(struct conn *conn)
{
	client_fatal(conn_client(conn), ERROR_LOGIN_TIMEOUT);
}

static void proxy_ended(struct conn *conn, const struct err *err)
{
	(void)err;
	conn_doom_quietly(conn, "client unexpected eof");
}

static void proxy_closed(struct conn *conn, const char *reason)
{
	(void)reason;
	proxy_free(conn_client(conn));
	client_leave(conn_client(conn));
}

static const struct conn_ops proxy_ops = {
    .name = "PROXY header",
    .message = proxy_message,
    .expired = proxy_expired,
    .malformed = client_malformed,
    .ended = proxy_ended,
    .closed = proxy_closed,
    .raw = proxy_raw,
};

void proxy_expect(struct client *client, const struct conn_ops *next)
{
	client->proxy = mem_zero(sizeof(*client->proxy));
	buf_init(&client->proxy->bytes, PROXY_HEADER_MAX);
	client->proxy->next = next;
	conn_hand_on(&client->conn, &proxy_ops);
}
