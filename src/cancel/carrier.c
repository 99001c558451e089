/*
 * Client sockets that brought a CancelRequest.  If they close, the request goes on
 * without them.
 */
#include "cancel/carrier.h"

#include "session/client.h"

void carrier_bind(struct client *carrier, struct carried *carried, struct pool *pool)
{
	carried->carrier = carrier;
	carried->pool = pool;
	carrier->carried = carried;
}

void carrier_release(struct carried *carried, const char *reason)
{
	struct client *carrier = carried->carrier;

	if (!carrier)
		return;
	carrier->carried = NULL;
	carried->carrier = NULL;
	conn_doom(&carrier->conn, "%s", reason);
}

static enum step carrier_message(struct conn *conn, const struct message *m)
{
	(void)m;
	conn_doom_quietly(conn, error_text(ERROR_BAD_PACKET));
	return STEP_CLOSE;
}

static void carrier_malformed(struct conn *conn, const uint8_t *bytes, size_t have)
{
	(void)bytes;
	(void)have;
	conn_doom_quietly(conn, error_text(ERROR_BAD_PACKET));
}

/* Many drivers close the socket immediately. */
static void carrier_ended(struct conn *conn, const struct err *err)
{
	(void)err;
	conn_doom_quietly(conn, "client unexpected eof");
}

static void carrier_closed(struct conn *conn, const char *reason)
{
	struct client *carrier = conn_client(conn);
	(void)reason;

	if (carrier->carried)
		carrier->carried->carrier = NULL;
	carrier->carried = NULL;
	client_leave(carrier);
}

static const struct conn_ops carrier_ops = {
    .name = "cancel carrier",
    .message = carrier_message,
    .malformed = carrier_malformed,
    .ended = carrier_ended,
    .closed = carrier_closed,
};

void carrier_begin(struct client *client)
{
	conn_hand_on(&client->conn, &carrier_ops);
	conn_set_deadline(&client->conn, 0);
	client_settle(client);
	client->is_carrier = true;
}
