/*
 * The clocks of a client and of the server it is linked to: what is due when, and what
 * happens then.  It moves no bytes.
 */
#include "session/clocks.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Limit after start; 0 of either means never. */
static uint64_t due(uint64_t start_us, uint64_t limit_us)
{
	return start_us && limit_us ? start_us + limit_us : UINT64_MAX;
}

static const struct catalog *client_catalog(const struct client *client)
{
	return client->conn.site->catalog;
}

/* The client holds no server and asks for none. */
void clocks_arm_rest(struct client *client)
{
	uint64_t limit = user_client_idle_timeout(client_catalog(client), client->user);
	conn_set_deadline(&client->conn, due(client->request.ask.last_us, limit));
}

static uint64_t wait_start(const struct client *client)
{
	const struct ask *ask = &client->request.ask;
	return ask->query_us ? ask->query_us : ask->last_us;
}

static uint64_t notify_due(const struct client *client)
{
	int notify = site_settings(client->conn.site)->query_wait_notify;
	if (notify <= 0 || client->was_notified)
		return UINT64_MAX;
	return client->request.ask.queued_us + (uint64_t)notify * 1000000;
}

void clocks_arm_wait(struct client *client)
{
	const struct ask *ask = &client->request.ask;
	uint64_t start = wait_start(client);
	uint64_t at = due(start, query_wait_timeout(client->database, client->user));
	at = earlier(at,
	    due(start, user_query_timeout(client_catalog(client), ask->pool->user)));
	at = earlier(at, notify_due(client));
	conn_set_deadline(&client->conn, at);
}

static void expired_waiting(struct client *client)
{
	const struct ask *ask = &client->request.ask;
	uint64_t now = conn_now(&client->conn);
	uint64_t start = wait_start(client);

	if (now >= due(start, query_wait_timeout(client->database, client->user))) {
		client_fatal(client, ERROR_QUERY_WAIT_TIMEOUT);
		return;
	}
	if (now >=
	    due(start, user_query_timeout(client_catalog(client), ask->pool->user))) {
		client_fatal(client, ERROR_QUERY_TIMEOUT_QUEUED);
		return;
	}
	if (now >= notify_due(client)) {
		client->was_notified = true;
		client_notice(client,
		    "No server connection available in postgres backend, "
		    "client being queued");
	}
	clocks_arm_wait(client);
}

void clocks_client_expired(struct conn *conn)
{
	struct client *client = conn_client(conn);
	uint64_t limit = user_client_idle_timeout(client_catalog(client), client->user);

	switch (client->request.ask.state) {
	case ASK_WAITING:
		expired_waiting(client);
		break;
	case ASK_RESTING:
		if (conn_now(conn) >= due(client->request.ask.last_us, limit))
			client_fatal(client, ERROR_CLIENT_IDLE_TIMEOUT);
		else
			clocks_arm_rest(client);
		break;
	case ASK_LINKED:
	case ASK_OUTSIDE:
		break;
	}
}

/* The running query's and transaction's limits, on the server's clock. */
void clocks_arm_query(struct server *server, const struct client *client)
{
	const struct catalog *catalog = client_catalog(client);
	const struct user *user = server->seat.pool->user;
	uint64_t at =
	    due(client->request.ask.query_us, user_query_timeout(catalog, user));
	at = earlier(at, due(client->xact_us, user_transaction_timeout(catalog, user)));
	at = earlier(at,
	    due(server->idle_xact_us, user_idle_transaction_timeout(catalog, user)));
	conn_set_deadline(&server->conn, at);
}

void clocks_server_expired(struct conn *conn)
{
	struct server *server = conn_server(conn);
	struct client *client = server_client(server);
	const struct catalog *catalog = conn->site->catalog;
	const struct user *user = server->seat.pool->user;
	uint64_t now = conn_now(conn);

	if (now >= due(client->request.ask.query_us, user_query_timeout(catalog, user)))
		server_retire(server, error_text(ERROR_QUERY_TIMEOUT));
	else if (now >= due(server->idle_xact_us,
			    user_idle_transaction_timeout(catalog, user)))
		server_retire(server, error_text(ERROR_IDLE_TRANSACTION_TIMEOUT));
	else if (now >= due(client->xact_us, user_transaction_timeout(catalog, user)))
		server_retire(server, error_text(ERROR_TRANSACTION_TIMEOUT));
	else
		clocks_arm_query(server, client);
}

/* Settings have changed: look at the clocks that run. */
void clocks_review(struct conn *conn)
{
	struct server *server = client_server(conn_client(conn));
	if (!server)
		clocks_client_expired(conn);
	else if (!server->conn.is_doomed && !server->is_applying && !server->dial)
		clocks_server_expired(&server->conn);
}
