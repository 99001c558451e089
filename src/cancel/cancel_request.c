/*
 * CancelRequests and the sockets that bring them.  If a socket closes, its request goes
 * on without it.
 */
#include "cancel/cancel_request.h"

#include <string.h>

/* When home looks for a client again.  It is gone from where it was, or may be about to
 * go to another process. */
enum { AGAIN_US = 50000 };

static void unref(struct cancel_request *request)
{
	if (atomic_fetch_sub(&request->refs, 1) > 1)
		return;
	mem_free(request->database);
	mem_free(request->reason);
	mem_wipe(request->key, sizeof(request->key));
	mem_free(request);
}

/* The socket and the request do not belong together any more. */
static void part(struct client *client)
{
	struct cancel_request *request = client->cancel_request;

	if (!request)
		return;
	client->cancel_request = NULL;
	request->client = NULL;
	unref(request);
}

/* ---- the socket ---- */

static void client_ended(struct conn *conn, const struct err *err)
{
	const struct cancel_request *request = conn_client(conn)->cancel_request;
	(void)err;
	/* as long as nobody has the request, it may have to begin again from here */
	if (request->state != CANCEL_NEW && request->state != CANCEL_AGAIN)
		conn_doom_quietly(conn, "client unexpected eof");
}

/* Either it is time to look again, or a worker has not taken the request in time. */
static void client_expired(struct conn *conn)
{
	struct cancel_request *request = conn_client(conn)->cancel_request;
	enum cancel_state state = CANCEL_NEW;

	if (atomic_compare_exchange_strong(&request->state, &state, CANCEL_GIVEN_UP)) {
		conn_doom(conn, "cancel_wait_timeout");
	} else if (state == CANCEL_AGAIN) {
		conn_hand_on(conn, request->before);
		part(conn_client(conn));
		conn_unpark(conn);
	}
}

static void client_closed(struct conn *conn, const char *reason)
{
	(void)reason;
	part(conn_client(conn));
	client_leave(conn_client(conn));
}

/* No message comes, because the packet is parked. */
static const struct conn_ops client_ops = {
    .name = "cancel request",
    .expired = client_expired,
    .ended = client_ended,
    .closed = client_closed,
};

struct cancel_request *cancel_request_new(
    struct client *client, const uint8_t *key, size_t len)
{
	struct cancel_request *request = mem_zero(sizeof(*request));

	request->home = client->conn.site;
	request->client = client;
	request->before = client->conn.ops;
	atomic_init(
	    &request->refs, 2); /* the client's, and that of whoever serves it */
	request->len = len < sizeof(request->key) ? len : sizeof(request->key);
	memcpy(request->key, key, request->len);
	client->cancel_request = request;
	conn_hand_on(&client->conn, &client_ops);
	conn_set_deadline(&client->conn, 0);
	if (!client->is_settled)
		client_settle(client);
	return request;
}

/* ---- the way ---- */

void cancel_request_send(struct cancel_request *request, struct worker *to,
    void (*open)(struct thread_message *message))
{
	struct client *client = request->client;
	uint64_t limit = site_settings(request->home)->global.cancel_wait_timeout;

	conn_set_deadline(&client->conn, limit ? conn_now(&client->conn) + limit : 0);
	request->to = to;
	request->message.handle = open;
	workers_post(to, &request->message);
}

/* ---- the end ---- */

/* At home. */
static void end(struct cancel_request *request, const char *reason)
{
	struct client *client = request->client;

	if (client && reason) {
		conn_doom(&client->conn, "%s", reason);
		part(client);
	} else if (client) {
		atomic_store(&request->state, CANCEL_AGAIN);
		conn_set_deadline(&client->conn, conn_now(&client->conn) + AGAIN_US);
	}
	unref(request);
}

static void came_back(struct thread_message *message)
{
	struct cancel_request *request =
	    container_of(message, struct cancel_request, message);

	end(request, request->reason);
}

void cancel_request_end(
    struct cancel_request *request, struct site *site, const char *reason)
{
	if (site == request->home) {
		end(request, reason);
	} else if (site->shutdown == SHUTDOWN_NOW) {
		unref(request); /* home may not exist any more */
	} else {
		request->reason = reason ? mem_strdup(reason) : NULL;
		request->message.handle = came_back;
		workers_post(request->home->worker, &request->message);
	}
}
