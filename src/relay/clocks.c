#include "relay/clocks.h"

#include "base/time_us.h"

/* When a limit ends that runs from start_us; UINT64_MAX (never) if one of the two is 0.
 */
static uint64_t due(uint64_t start_us, uint64_t limit_us)
{
	return start_us && limit_us ? start_us + limit_us : UINT64_MAX;
}

/* The scope of limits for a client without a server. */
static struct scope client_scope(const struct client *client)
{
	return scope_of_login(client->database, client->user);
}

void clocks_arm_rest(struct client *client)
{
	uint64_t limit = scope_client_idle_timeout(client_scope(client));
	conn_set_deadline(&client->conn, due(client->request.in_pool.last_us, limit));
}

static uint64_t wait_start(const struct client *client)
{
	const struct pool_request *request = &client->request.in_pool;
	return request->query_us ? request->query_us : request->last_us;
}

static uint64_t notify_due(const struct client *client)
{
	int notify = scope_query_wait_notify(client_scope(client));
	if (notify <= 0 || client->was_notified)
		return UINT64_MAX;
	return client->request.in_pool.queued_us + (uint64_t)notify * 1000000;
}

void clocks_arm_wait(struct client *client)
{
	const struct pool_request *request = &client->request.in_pool;
	uint64_t start = wait_start(client);
	uint64_t at = due(start, scope_query_wait_timeout(client_scope(client)));
	at = time_earlier(
	    at, due(start, scope_query_timeout(scope_of_pool(request->pool))));
	at = time_earlier(at, notify_due(client));
	conn_set_deadline(&client->conn, at);
}

static void expired_waiting(struct client *client)
{
	const struct pool_request *request = &client->request.in_pool;
	uint64_t now = conn_now(&client->conn);
	uint64_t start = wait_start(client);

	if (now >= due(start, scope_query_wait_timeout(client_scope(client)))) {
		client_fatal(client, ERROR_QUERY_WAIT_TIMEOUT);
		return;
	}
	if (now >= due(start, scope_query_timeout(scope_of_pool(request->pool)))) {
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
	uint64_t limit = scope_client_idle_timeout(client_scope(client));

	switch (client->request.in_pool.state) {
	case REQUEST_WAITING:
		expired_waiting(client);
		break;
	case REQUEST_RESTING:
		if (conn_now(conn) >= due(client->request.in_pool.last_us, limit))
			client_fatal(client, ERROR_CLIENT_IDLE_TIMEOUT);
		else
			clocks_arm_rest(client);
		break;
	case REQUEST_LINKED:
	case REQUEST_OUTSIDE:
		break;
	}
}

/* ---- a link ---- */

/* On a replication connection one command may run for hours, so the limits count from
 * the client's last message. */
static uint64_t link_query_start(
    const struct client *client, const struct server *server)
{
	const struct pool_request *request = &client->request.in_pool;

	if (server->slot.is_replication)
		return request->query_us ? request->last_us : 0;
	if (!request->query_us && server->link.params.is_applying)
		return server->link.params.apply_us;
	return request->query_us;
}

/* While the pooler's SETs run, the client still waits for a server that it can use. */
static uint64_t link_wait_start(
    const struct client *client, const struct server *server)
{
	if (!server->link.params.is_applying || server->link.params.settling.sources ||
	    server->link.params.owes_ready || server->link.params.is_fenced ||
	    server->link.pin.is_asking)
		return 0;
	return client->request.in_pool.query_us ? client->request.in_pool.query_us
						: server->link.params.apply_us;
}

/* Does the server wait for the client?  Not during a COPY, which counts as a running
 * query. */
static bool link_waits_for_client(
    const struct client *client, const struct server *server)
{
	const struct pipeline *owed = &server->pipeline;

	if (server->link.params.is_applying || server->link.hold != LINK_OPEN ||
	    owed->copy)
		return false;
	if (pipeline_count(owed) == 0 || (owed->syncs == 0 && !server->link.is_flushed))
		return true;
	return pipeline_count(owed) == 1 && client_is_sending_message(client) &&
	       !client->conn.is_paused;
}

/* In session mode the client keeps its server while it is idle; no limit applies then.
 */
static bool link_is_at_rest(const struct client *client, const struct server *server)
{
	return server->is_ready && !client->request.in_pool.query_us;
}

/* When the client has been silent for too long.  While the server works, it is not
 * known when the silence will begin.  The deadline then simply passes and is set anew,
 * so that it need not be set with each answer. */
static uint64_t link_silence_due(
    const struct client *client, const struct server *server, uint64_t limit)
{
	const struct pool_request *request = &client->request.in_pool;

	if (!limit || link_is_at_rest(client, server))
		return UINT64_MAX;
	if (server->link.idle_xact_us && !request->query_us)
		return server->link.idle_xact_us + limit;
	if (!link_waits_for_client(client, server))
		return conn_now(&server->conn) + limit;
	return (request->last_us > server->last_us ? request->last_us
						   : server->last_us) +
	       limit;
}

/* When each limit of a link is reached, in the order in which they are checked. */
enum link_limit {
	LIMIT_QUERY,
	LIMIT_SILENCE,
	LIMIT_XACT,
	LIMIT_WAIT,
	LIMIT_PIN,
	LIMIT_COUNT
};

static void link_limits(
    const struct client *client, const struct server *server, uint64_t at[LIMIT_COUNT])
{
	struct scope scope = scope_of_pool(server->slot.pool);

	at[LIMIT_QUERY] =
	    due(link_query_start(client, server), scope_query_timeout(scope));
	at[LIMIT_SILENCE] =
	    link_silence_due(client, server, scope_idle_transaction_timeout(scope));
	at[LIMIT_XACT] = due(server->slot.is_replication && client->xact_us
				 ? client->request.in_pool.last_us
				 : client->xact_us,
	    scope_transaction_timeout(scope));
	at[LIMIT_WAIT] = due(link_wait_start(client, server),
	    scope_query_wait_timeout(client_scope(client)));
	at[LIMIT_PIN] = server->link.pin.kinds && link_is_at_rest(client, server)
			    ? due(server->last_us, scope_pin_idle_timeout(scope))
			    : UINT64_MAX;
}

void clocks_arm_link(struct server *server, const struct client *client)
{
	uint64_t at[LIMIT_COUNT], first = UINT64_MAX;

	link_limits(client, server, at);
	for (int i = 0; i < LIMIT_COUNT; i++)
		first = time_earlier(first, at[i]);
	conn_set_deadline(&server->conn, first);
}

void clocks_link_expired(struct conn *conn)
{
	static const enum error_id texts[] = {
	    [LIMIT_QUERY] = ERROR_QUERY_TIMEOUT,
	    [LIMIT_SILENCE] = ERROR_IDLE_TRANSACTION_TIMEOUT,
	    [LIMIT_XACT] = ERROR_TRANSACTION_TIMEOUT,
	    [LIMIT_WAIT] = ERROR_QUERY_WAIT_TIMEOUT,
	    [LIMIT_PIN] = ERROR_PIN_IDLE_TIMEOUT,
	};
	struct server *server = conn_server(conn);
	struct client *client = server_client(server);
	uint64_t at[LIMIT_COUNT], now = conn_now(conn);

	link_limits(client, server, at);
	for (int i = 0; i < LIMIT_COUNT; i++) {
		if (now >= at[i]) {
			server_retire(server, error_text(texts[i]));
			return;
		}
	}
	clocks_arm_link(server, client);
}

void clocks_review(struct conn *conn)
{
	struct server *server = client_server(conn_client(conn));
	if (!server)
		clocks_client_expired(conn);
	else if (!server->conn.is_doomed && !server->dial)
		clocks_link_expired(&server->conn);
}
