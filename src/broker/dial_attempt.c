/*
 * The end of an attempt to open a server connection.  dial.c runs the attempt.
 */
#include "broker/dial_attempt.h"

#include <string.h>

#include "auth/workers.h"
#include "pool/hosts_role.h"
#include "session/client.h"
#include "wire/codec.h"
#include "wire/message.h"

void dial_free(struct server *server)
{
	struct dial *dial = server->dial;
	if (!dial)
		return;
	if (dial->query)
		dns_cancel(&dial->query);
	if (dial->job)
		workers_cancel(dial->job);
	if (dial->has_scram)
		scram_client_done(&dial->scram);
	mem_free_secret(dial->password);
	mem_wipe(&dial->keys, sizeof(dial->keys));
	mem_wipe(dial->salted, sizeof(dial->salted));
	buf_done(&dial->untracked);
	slab_put(server->conn.site->dial_slab, dial);
	server->dial = NULL;
	server->conn.site->login_server_count--;
}

/* If no host can be used: logs what is known of all hosts. */
static void log_lack(const struct pool *pool, const struct site *site)
{
	const struct database *db = pool->database;

	if (pool->lacks_host && hosts_has_roles(db) && !db->is_switching &&
	    pool->refusal)
		log_put(
		    site->log, LEVEL_WARNING | KIND_SERVERS, NULL, "%s", pool->refusal);
}

enum log_level dial_log_level(struct server *server, const char *why)
{
	struct dial *dial = server->dial;

	if (!dial->is_judged)
		dial->is_old_news =
		    !hosts_is_news(&server->seat, why, conn_now(&server->conn));
	dial->is_judged = true;
	return dial->is_old_news ? LEVEL_DEBUG : LEVEL_WARNING;
}

static void doom(struct server *server, const char *reason)
{
	if (dial_log_level(server, reason) == LEVEL_DEBUG)
		conn_doom_quietly(&server->conn, reason);
	else
		conn_doom(&server->conn, "%s", reason);
}

void dial_fail(struct server *server, enum dial_failure kind, const char *text,
    const char *sqlstate, const char *reason)
{
	struct pool *pool = server->seat.pool;
	struct client *replica = server_client(server);
	if (!server->conn.is_doomed && pool && !server->dial->has_failed) {
		server->dial->has_failed = true;
		doom(server, reason);
		pool_dial_failed(
		    &server->seat, kind, text, sqlstate, conn_now(&server->conn));
		log_lack(pool, server->conn.site);
		if (replica && kind != DIAL_LOGIN &&
		    hosts_has_candidate(pool, conn_now(&server->conn)))
			replica->request.ops->retried(&replica->request);
		else if (replica)
			client_fatal(replica, error_of_reason(text), text);
	}
}

void dial_fail_network(struct server *server, const char *reason)
{
	const struct dial *dial = server->dial;
	/* the server closed without an answer, perhaps because of the protocol version:
	 * the next attempt uses the other one */
	if (dial->version && !dial->answers && !dial->has_failed && server->seat.pool)
		server->seat.pool->speaks_3_0 = dial->version != PROTOCOL_3_0;
	dial_fail(server, DIAL_NETWORK, reason, error_sqlstate(ERROR_CONNECTION_LOST),
	    reason);
}
