#include "relay/params.h"

#include <string.h>

#include "base/text.h"
#include "broker/broker.h"
#include "relay/kept.h"
#include "relay/resets.h"
#include "relay/sequences.h"
#include "relay/session_state.h"
#include "session/server_role.h"
#include "wire/codec.h"

/* ---- whose value is in force ---- */

/* Is this a parameter whose changes are taken for the administrator's?  All others are
 * changed by clients far more often than in the server's configuration. */
static bool is_administrators(const struct client *client, size_t i)
{
	const char *name = vars_schema_name(client->conn.site->vars, i);

	return strcmp(name, "default_transaction_read_only") == 0;
}

/* The server reports another value while the client is linked to it: notes whether the
 * client or the administrator has changed it.  If that is not known, a RESET for the
 * next client of the server shows it. */
static void note_owner(struct server *server, struct client *client, size_t i)
{
	const struct vars_schema *schema = client->conn.site->vars;
	uint64_t bit = i < EFFECTS_PARAMETERS ? UINT64_C(1) << i : 0;
	/* no SET may exist for a parameter that is not known */
	bool is_servers = vars_schema_is_learned(schema, i) &&
			  !server->link.params.may_have_set && !server->link.pin.made;

	if (!vars_schema_may_be_set(schema, i) || is_servers) {
		if (broker_learn(server, i) < 0)
			server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	} else if (vars_is_same(&server->vars, &server->own, i)) {
		client->params.own &= ~(bit & ~client->params.requested);
	} else if (server->link.params.may_have_set || !is_administrators(client, i)) {
		client->params.own |= bit;
		client->params.doubtful = server->link.params.may_have_set
					      ? client->params.doubtful & ~bit
					      : client->params.doubtful | bit;
	} else {
		server_role_follow(server, &server->vars);
	}
}

/* Doubtful values: if the pool's servers now have the same value by themselves, the
 * administrator has set it, and not a function that the client called. */
static void review_doubts(struct client *client)
{
	const struct login_params *login_params =
	    broker_login_params(client->request.in_pool.pool);

	for (size_t i = 0; login_params && i < EFFECTS_PARAMETERS; i++) {
		uint64_t bit = UINT64_C(1) << i;
		if ((client->params.doubtful & bit) &&
		    vars_is_same(&client->params.vars, &login_params->vars, i)) {
			client->params.doubtful &= ~bit;
			client->params.own &= ~(bit & ~client->params.requested);
		}
	}
}

/* Reports to the client the values in which this server differs from its last one, and
 * says whether there were any. */
static bool has_reported_differences(const struct server *server, struct client *client)
{
	size_t count = vars_schema_count(client->conn.site->vars);
	bool has_any = false;

	if (vars_is_equal(&client->params.vars, &server->vars))
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *value = vars_get(&server->vars, i);
		if (!value || client_is_own(client, i) ||
		    vars_is_same(&client->params.vars, &server->vars, i))
			continue;
		has_any = true;
		vars_copy(&client->params.vars, &server->vars, i);
		if (vars_may_be_told(&client->params.vars, &server->vars, i))
			client_put_status(client, i, value);
	}
	return has_any;
}

/* Whether the last client that the server fitted had the same values as this one, and
 * the server has the same as then.  Most clients of a pool do, so the values are not
 * compared one by one for each transaction. */
static bool has_fitted(const struct server *server, const struct client *client)
{
	return kept_fits(server, client) &&
	       server->fitted.client_id == vars_id(&client->params.vars) &&
	       server->fitted.server_id == vars_id(&server->vars) &&
	       server->fitted.own_id == vars_id(&server->own) &&
	       server->fitted.client_own == client->params.own &&
	       (!client->params.asked ||
		   !(client->params.requested & ~server->confirmed));
}

static void send_sets(struct server *server, struct buf *sql)
{
	conn_log(&server->conn, LEVEL_DEBUG | KIND_SERVERS, "varcache_apply: %s",
	    buf_text(sql));
	server_query_text(server, sql);
}

static void put_encoding(const char *encoding, struct buf *sql)
{
	buf_put_text(sql, "SET client_encoding=");
	text_put_literal(sql, encoding);
	buf_put_text(sql, ";");
}

/* Sets a value with this encoding.  PostgreSQL reports it under the client_encoding in
 * force, which may not have its characters: then that encoding is in force meanwhile.
 */
static void send_converted(struct server *server, const struct client *client,
    const char *encoding, const struct buf *set)
{
	const char *clients = vars_get(&client->params.vars, VAR_CLIENT_ENCODING);
	bool is_other = clients && strcmp(encoding, clients) != 0;
	struct buf sql;

	buf_init(&sql, 0);
	if (is_other)
		put_encoding(encoding, &sql);
	buf_put(&sql, set->bytes, set->len);
	sql.failed = sql.failed || set->failed;
	send_sets(server, &sql);
	if (is_other) {
		buf_clear(&sql);
		put_encoding(clients, &sql);
		send_sets(server, &sql);
	}
	buf_done(&sql);
}

/* Sets or resets those values that have an encoding, each in a Query of its own:
 * one that cannot be converted must not undo the others. */
static bool send_all_converted(struct server *server, const struct client *client)
{
	size_t count = vars_schema_count(client->conn.site->vars);
	struct buf sql;

	server->link.params.has_converted = server->link.params.has_lost_value = false;
	buf_init(&sql, 0);
	for (size_t i = 0; i < count; i++) {
		const struct vars *from =
		    client_is_own(client, i) ? &client->params.vars : &server->own;
		bool is_put = vars_encoding(from, i) != NULL;
		buf_clear(&sql);
		if (is_put && from == &server->own)
			is_put = server_puts_back(
			    server, i, &sql, &server->link.params.brought_back);
		else if (is_put)
			is_put = vars_is_put_set(from, &server->vars, i, "", &sql);
		if (!is_put)
			continue;
		server->link.params.has_converted = true;
		send_converted(server, client, vars_encoding(from, i), &sql);
	}
	buf_done(&sql);
	return server->link.params.has_converted;
}

bool params_apply(struct server *server, struct client *client)
{
	const struct vars_schema *schema = client->conn.site->vars;
	struct buf sql;
	bool is_put = false;

	if (server->slot.is_replication)
		return false;
	/* also if there is nothing to set: with the next change of the administrator it
	 * would be too late */
	if (client->params.doubtful)
		review_doubts(client);
	bool discards =
	    sequences_are_due(server, client) && session_state_are_kept(server);
	if (!discards && has_fitted(server, client))
		return false;
	buf_init(&sql, 0);
	server->link.params.brought_back = 0;
	server->link.params.puts_kept = !kept_fits(server, client);
	if (server->link.params.puts_kept && kept_put_back(server, client, &sql))
		server->link.params.puts_back = is_put = true;
	if (discards) {
		sequences_put_discard(server, client, &sql);
		server->link.params.puts_back = is_put = true;
	}
	for (size_t i = 0; i < vars_schema_count(schema); i++) {
		if (vars_encoding(
			client_is_own(client, i) ? &client->params.vars : &server->own,
			i))
			continue;
		uint64_t bit = i < EFFECTS_PARAMETERS ? UINT64_C(1) << i : 0;
		bool is_put_now = client_is_own(client, i)
				      ? vars_is_put_set(&client->params.vars,
					    &server->vars, i, "", &sql)
				      : server_puts_back(server, i, &sql,
					    &server->link.params.brought_back);
		/* The client has changed a value that it asked for to the server's own
		 * one.  That is set as well: a server on which it was not would tell
		 * that the client has reset it (resets_ask). */
		if (!is_put_now && client->params.asked &&
		    (client->params.requested & ~server->confirmed & bit) &&
		    !vars_is_same(&client->params.vars, client->params.asked, i) &&
		    vars_is_same(&client->params.vars, &server->vars, i) &&
		    vars_is_same(&client->params.vars, &server->own, i)) {
			vars_put_set_raw(&client->params.vars, i, &sql);
			server->confirmed |= bit;
			is_put_now = true;
		}
		if (is_put_now)
			buf_put_text(&sql, ";");
		is_put = is_put || is_put_now;
	}
	server->confirmed &= ~server->link.params.brought_back;
	if (server->link.params.puts_kept)
		is_put = kept_put(server, client, &sql) || is_put;
	if (is_put)
		send_sets(server, &sql);
	is_put = send_all_converted(server, client) || is_put;
	if (is_put) {
		server->link.params.is_applying = true;
		server->link.params.apply_failed = false;
	} else if (!has_reported_differences(server, client) && !sql.failed) {
		server->fitted.client_id = vars_id(&client->params.vars);
		server->fitted.server_id = vars_id(&server->vars);
		server->fitted.own_id = vars_id(&server->own);
		server->fitted.client_own = client->params.own;
	}
	if (sql.failed)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	buf_done(&sql);
	return is_put;
}

bool params_apply_again(struct server *server, struct client *client)
{
	size_t count = vars_schema_count(client->conn.site->vars);
	uint64_t local = server->link.params.apply_local;
	struct buf sql;
	int failed = 0;

	server->link.params.wants_apply = false;
	server->link.params.apply_local = 0;
	if (!vars_is_different(&client->params.vars, &server->vars))
		return false;
	buf_init(&sql, 0);
	for (size_t i = 0; i < count && !failed; i++) {
		bool is_local = i < EFFECTS_PARAMETERS && local >> i & 1;
		buf_clear(&sql);
		if (client_is_own(client, i) &&
		    vars_is_put_set(&client->params.vars, &server->vars, i,
			is_local ? "LOCAL " : "", &sql)) {
			conn_log(&server->conn, LEVEL_DEBUG | KIND_SERVERS,
			    "varcache_apply: %s", buf_text(&sql));
			failed =
			    sql.failed || server_command(server, buf_text(&sql), 0) < 0;
		}
	}
	failed = failed || server_sync(server) < 0;
	server->link.params.is_applying = true;
	server->link.params.apply_us = conn_now(&server->conn);
	server->link.params.apply_failed = server->is_ready = false;
	if (failed)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	buf_done(&sql);
	return true;
}

static void log_canonical(const struct client *client, const struct vars *server)
{
	size_t count = vars_schema_count(client->conn.site->vars);
	for (size_t i = 0; i < count; i++) {
		const char *before = vars_get(&client->params.vars, i);
		const char *now = vars_get(server, i);
		if (before && now && strcmp(before, now) != 0)
			conn_log(&client->conn, LEVEL_DEBUG | KIND_SERVERS,
			    "varcache_set_canonical: setting %s to its canonical "
			    "version "
			    "%s -> %s",
			    vars_schema_name(client->conn.site->vars, i), before, now);
	}
}

/* The client goes on with the server's value where its own could not be set, or with
 * those that a failed transaction has left. */
static void tell_lost_values(const struct server *server, struct client *client)
{
	size_t count = vars_schema_count(client->conn.site->vars);

	for (size_t i = 0; i < count; i++) {
		const char *value = vars_get(&server->vars, i);
		if (value &&
		    (vars_encoding(&client->params.vars, i) || server->status == 'E') &&
		    vars_may_be_told(&client->params.vars, &server->vars, i) &&
		    !vars_is_same(&client->params.vars, &server->vars, i))
			client_put_status(client, i, value);
	}
}

int params_applied(struct server *server, struct client *client)
{
	server->link.params.is_applying = false;
	server->is_ready = server->status == 'I';
	if (server->link.params.refusal.max) {
		client_fatal(client, ERROR_SETTING_REFUSED,
		    buf_text(&server->link.params.refusal));
		server->confirmed = 0;
		return 1;
	}
	if (server->link.params.wants_other)
		return 1;
	if (server->link.params.apply_failed ||
	    (server->status == 'E' && !server->link.params.owes_ready &&
		!client->is_canceled) ||
	    (server->link.params.puts_kept && kept_applied(server, client) < 0)) {
		server_retire(server, error_text(ERROR_INVALID_SERVER_PARAMETER));
		return -1;
	}
	server->link.params.puts_kept = server->link.params.puts_back = false;
	if (log_is_on(client->conn.site->log, LEVEL_DEBUG | KIND_SERVERS))
		log_canonical(client, &server->vars);
	server->link.params.may_undo_set |= server->status == 'T';
	broker_learn_resets(server, server->link.params.brought_back);
	server->link.params.brought_back = 0;
	/* the RESETs were the pooler's, and not the client's */
	server->link.params.was_reset = server->link.params.is_reset_kept = false;
	(void)has_reported_differences(server, client);
	if (server->link.params.has_lost_value || server->status == 'E')
		tell_lost_values(server, client);
	vars_take(&client->params.vars, &server->vars);
	return 0;
}

/* The value has no representation in the database, or there is no conversion. */
static bool is_inconvertible(const char *sqlstate)
{
	static const char *const codes[] = {SQLSTATE_UNTRANSLATABLE,
	    SQLSTATE_NOT_IN_REPERTOIRE, SQLSTATE_UNDEFINED_FUNCTION};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (strcmp(sqlstate, codes[i]) == 0)
			return true;
	return false;
}

bool params_failed(struct server *server, const struct message *m)
{
	struct error_fields f;

	codec_read_error(message_body(m), message_body_len(m), &f);
	if (server->link.params.has_converted && is_inconvertible(f.sqlstate)) {
		conn_log(&server->conn, LEVEL_WARNING | KIND_SERVERS,
		    "a client's value was left out: %s", f.message);
		server->link.params.has_lost_value = true;
		return false;
	}
	bool is_canceled =
	    strcmp(f.sqlstate, error_sqlstate(ERROR_QUERY_CANCELED)) == 0;
	/* in a block, as if the request had met the client's RESET itself */
	if (is_canceled && server->link.params.owes_ready && server->status == 'T') {
		server->status = 'E';
		server->link.params.may_have_set = true;
		return true;
	}
	(void)server_log_refused_set(server, &f);
	/* by a late request, which was for the client's RESET */
	if (is_canceled && server->link.params.has_run && server->status == 'I' &&
	    ++server->link.params.settling.attempts < OWN_ATTEMPTS_MOST) {
		server->link.params.wants_apply = true;
		return false;
	}
	/* as if it had met what the client sends next, which fails with its block */
	if (is_canceled && server->status == 'T') {
		server_client(server)->is_canceled = true;
		return false;
	}
	server->link.params.apply_failed = true;
	server->link.params.wants_other = is_canceled && !server->link.params.has_run;
	if (!server->link.params.puts_kept && !server->link.params.puts_back)
		return false;
	/* a session that has used temporary tables keeps its temp_buffers, as DETAIL
	 * says; all other values are refused by every server */
	bool had_temp = *f.detail && strstr(f.message, "temp_buffers");
	if (server->link.params.puts_back || had_temp)
		server->link.params.wants_other = true;
	else if (!server->link.params.wants_other && !server->link.params.refusal.max) {
		buf_init(&server->link.params.refusal, 0);
		buf_put_str(&server->link.params.refusal, f.message);
	}
	return false;
}

int params_report(struct server *server, struct client *client, const struct message *m)
{
	const struct vars_schema *schema = client->conn.site->vars;
	const char *name, *value;
	/* params_failed has failed the block, and its changes are the client's */
	bool is_undone = server->link.params.is_applying && server->status == 'E';
	int i = -1;

	if (server->link.params.is_applying && !is_undone) {
		if (server_note_parameter(server, m, NULL, NULL) < 0)
			return -1;
		/* it is reported once, with whatever answer comes next */
		if (server_role_is_named(m))
			server_role_follow(server, &server->own);
		return 0;
	}
	if (codec_read_parameter_status(
		message_body(m), message_body_len(m), &name, &value) == 0)
		i = vars_schema_find(schema, name);
	if (i >= 0) {
		if (is_undone)
			client_put_status(client, (size_t)i, value);
		resets_keep_asked(client);
		if (i < EFFECTS_PARAMETERS)
			server->link.params.reported |= UINT64_C(1) << i;
	}
	if (server_note_parameter(server, m, &client->params.vars, NULL) < 0)
		return -1;
	if (i >= 0)
		note_owner(server, client, (size_t)i);
	return 0;
}

void params_note_tag(struct server *server, const struct message *m)
{
	static const char *const tags[] = {
	    "SET", "RESET", "DISCARD ALL", "CALL", "DO", "ROLLBACK"};

	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
		if (server_has_tag(m, tags[i]))
			server->link.params.may_have_set = true;
}
