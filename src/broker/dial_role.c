/*
 * Finds out the role of a server at the end of its login.  The pool decides which roles
 * a database uses.
 */
#include "broker/dial_role.h"

#include <stdio.h>
#include <string.h>

#include "broker/dial_attempt.h"
#include "pool/hosts_role.h"
#include "pool/scopes.h"
#include "session/client.h"
#include "session/server_role.h"
#include "wire/codec.h"
#include "wire/message.h"

static const char role_query[] =
    "SELECT pg_catalog.pg_is_in_recovery(), "
    "pg_catalog.current_setting('default_transaction_read_only')";

/* A walsender of physical replication runs no SQL. */
static bool may_be_asked(const struct server *server)
{
	const struct client *replica = server_client(server);

	return !replica || replica->replication != REPLICATION_PHYSICAL;
}

bool dial_role_ask(struct server *server)
{
	struct dial *dial = server->dial;
	struct buf buf;

	if (dial->has_asked_role)
		return false;
	dial->has_asked_role = true;
	server_role_read(server, &server->vars, &dial->report);
	if (dial->report.role != HOST_ROLE_UNKNOWN || !may_be_asked(server) ||
	    !hosts_has_roles(server->seat.pool->database))
		return false;
	dial->is_asking_role = true;
	buf_init(&buf, 0);
	codec_put_query(&buf, role_query);
	conn_send(&server->conn, &buf);
	buf_done(&buf);
	return true;
}

static bool is_field(const uint8_t *value, size_t len, const char *word)
{
	return value && len == strlen(word) && memcmp(value, word, len) == 0;
}

static enum step fail(struct server *server, const char *why)
{
	conn_log(&server->conn, LEVEL_WARNING | KIND_SERVERS,
	    "could not ask for the role: %s", why);
	dial_fail_network(server, "could not ask for the role");
	return STEP_CLOSE;
}

static enum step take_row(struct server *server, const struct message *m)
{
	struct host_report *report = &server->dial->report;
	const uint8_t *value;
	struct cursor c;
	size_t count, len;

	cursor_init(&c, message_body(m), message_body_len(m));
	if (codec_read_row_count(&c, &count) < 0 || count != 2 ||
	    codec_next_field(&c, &value, &len) < 0)
		return fail(server, "the answer cannot be read");
	report->role = is_field(value, len, "t") ? HOST_STANDBY : HOST_PRIMARY;
	if (codec_next_field(&c, &value, &len) < 0)
		return fail(server, "the answer cannot be read");
	report->is_read_only = is_field(value, len, "on");
	return STEP_NEXT;
}

enum step dial_role_answer(struct server *server, const struct message *m)
{
	char letter[MESSAGE_LETTER], name[MESSAGE_NAME];
	char why[sizeof(letter) + sizeof(name) + 32];
	struct error_fields f;

	switch (m->type) {
	case 'D':
		return take_row(server, m);
	case 'T':
	case 'C':
	case 'N':
		return STEP_NEXT;
	case 'E':
		codec_read_error(message_body(m), message_body_len(m), &f);
		return fail(server, f.message);
	default:
		snprintf(why, sizeof(why), "the server says '%s'%s",
		    message_letter(m->type, letter), message_back_name(m->type, name));
		return fail(server, why);
	}
}

static void refuse(struct server *server)
{
	const struct pool *pool = server->seat.pool;
	const char *role = host_role_shown(server->seat.share->host);
	struct scope scope = scope_of_database(pool->database);
	char reason[128];

	snprintf(reason, sizeof(reason),
	    "its host is not used: it is %s, target_session_attrs is %s",
	    role ? role : "up", setting_target_name(scope_target_session_attrs(scope)));
	dial_fail(
	    server, DIAL_UNFIT, reason, error_sqlstate(ERROR_CONNECTION_LOST), reason);
}

bool dial_role_may_stay(struct server *server)
{
	struct dial *dial = server->dial;
	struct seat *seat = &server->seat;

	if (dial->is_asking_role && dial->report.role == HOST_ROLE_UNKNOWN) {
		fail(server, "there is no answer");
		return false;
	}
	dial->is_asking_role = false;
	if (dial->report.role != HOST_ROLE_UNKNOWN)
		hosts_learn(seat, &dial->report, conn_now(&server->conn));
	if (hosts_is_fit(seat->pool, seat->share->host))
		return true;
	refuse(server);
	return false;
}
