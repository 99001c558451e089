#include "login/login_clocks.h"

#include "base/time_us.h"
#include "login/authquery.h"
#include "login/login_state.h"

void login_clocks_arm_params(struct client *client)
{
	const struct pool_request *request = &client->request.in_pool;
	uint64_t at = time_limit(client->conn.connect_us,
	    site_settings(client->conn.site)->client_login_timeout);
	uint64_t since_us = client->login->waits_since_us;
	uint64_t wait = time_limit(since_us,
	    scope_query_wait_timeout(scope_of_login(client->database, client->user)));
	uint64_t query =
	    time_limit(since_us, scope_query_timeout(scope_of_pool(request->pool)));
	conn_set_deadline(&client->conn, time_earlier(at, time_earlier(wait, query)));
}

void login_clocks_arm_lookup(struct client *client)
{
	enum error_id error;
	uint64_t at = time_limit(client->conn.connect_us,
	    site_settings(client->conn.site)->client_login_timeout);
	uint64_t due = authquery_due(client, &error);

	conn_set_deadline(&client->conn, time_earlier(due, at));
}

static void lookup_expired(struct client *client)
{
	enum error_id error = ERROR_LOGIN_TIMEOUT;

	if (conn_now(&client->conn) >= authquery_due(client, &error))
		client_fatal(client, error);
	else
		login_clocks_arm_lookup(client); /* the query is running by now */
}

void login_clocks_expired(struct conn *conn)
{
	struct client *client = conn_client(conn);
	uint64_t limit = site_settings(conn->site)->client_login_timeout;
	bool is_login = conn_now(conn) >= time_limit(conn->connect_us, limit);

	if (client->login->phase == LOGIN_LOOKUP && !is_login)
		lookup_expired(client);
	else if (client->login->phase != LOGIN_PARAMS)
		client_fatal(client, ERROR_LOGIN_TIMEOUT);
	else if (is_login)
		client_fatal(client, ERROR_LOGIN_TIMEOUT_SERVER);
	else if (conn_now(conn) >= time_limit(client->login->waits_since_us,
				       scope_query_wait_timeout(scope_of_login(
					   client->database, client->user))))
		client_fatal(client, ERROR_QUERY_WAIT_TIMEOUT);
	else
		client_fatal(client, ERROR_QUERY_TIMEOUT_QUEUED);
}

void login_clocks_review(struct conn *conn)
{
	uint64_t limit = site_settings(conn->site)->client_login_timeout;
	if (conn_client(conn)->login->phase == LOGIN_PARAMS)
		login_clocks_arm_params(conn_client(conn));
	else if (conn_client(conn)->login->phase == LOGIN_LOOKUP)
		login_clocks_arm_lookup(conn_client(conn));
	else
		conn_set_deadline(conn, time_limit(conn->connect_us, limit));
}

void login_clocks_measure(const struct client *client)
{
	struct pool *pool = client->request.in_pool.pool;
	/* connect_us may be from another thread, whose clock may be ahead */
	uint64_t from_us = client->conn.connect_us, now_us = conn_now(&client->conn);

	pool->stats.client_login_count++;
	/* the durations are about applications, not about the console */
	if (client->database->is_admin)
		return;
	latency_add(
	    &pool->latency, LATENCY_LOGIN, now_us > from_us ? now_us - from_us : 0);
}
