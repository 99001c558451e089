#include "broker/dial_attempt.h"

#include "auth/helpers.h"
#include "net/dns.h"
#include "wire/message.h"

void dial_free(struct server *server)
{
	struct dial *dial = server->dial;
	if (!dial)
		return;
	if (dial->query)
		dns_cancel(&dial->query);
	if (dial->job)
		helpers_cancel(dial->job);
	later_cancel(server->conn.site->loop, &dial->at_end);
	if (dial->has_scram)
		scram_client_done(&dial->scram);
	kerberos_exchange_free(&dial->kerberos);
	kerberos_ticket_unref(&dial->ticket);
	passwords_leave(&dial->password_wait);
	mem_free_secret(dial->fetched.text);
	mem_free_secret(dial->password);
	mem_wipe(&dial->keys, sizeof(dial->keys));
	mem_wipe(dial->salted, sizeof(dial->salted));
	buf_done(&dial->untracked);
	slab_put(server->conn.site->dial_slab, dial);
	server->dial = NULL;
	server->conn.site->login_server_count--;
}

const char *dial_place(const struct server *server)
{
	const char *dir = site_settings(server->conn.site)->unix_socket_dir;

	if (server->host)
		return server->host;
	return dir ? dir : "";
}

enum log_level dial_log_level(struct server *server, const char *why)
{
	struct dial *dial = server->dial;

	if (!dial->is_judged)
		dial->level = dial->owner->log_level(server, why);
	dial->is_judged = true;
	return dial->level;
}

void dial_fail(struct server *server, enum dial_failure kind, const char *text,
    const char *sqlstate, const char *reason)
{
	struct dial *dial = server->dial;

	if (server->conn.is_doomed || dial->has_failed)
		return;
	dial->has_failed = true;
	if (kind == DIAL_NETWORK && dial->is_looked_up)
		dns_avoid(
		    server->conn.site->dns, dial_place(server), &server->conn.remote);
	if (dial_log_level(server, reason) == LEVEL_DEBUG)
		conn_doom_quietly(&server->conn, reason);
	else
		conn_doom(&server->conn, "%s", reason);
	dial->owner->failed(server, kind, text, sqlstate);
}

void dial_fail_network(struct server *server, const char *reason)
{
	dial_fail_because(server, reason, reason);
}

void dial_fail_because(struct server *server, const char *text, const char *reason)
{
	const struct dial *dial = server->dial;

	/* the server closed without an answer, perhaps because of the protocol version:
	 * the next attempt uses the other one */
	if (dial->version && !dial->answers && !dial->has_failed &&
	    !server->conn.is_doomed)
		*dial_identity(server).speaks_3_0 = dial->version != PROTOCOL_3_0;
	dial_fail(
	    server, DIAL_NETWORK, text, error_sqlstate(ERROR_CONNECTION_LOST), reason);
}
