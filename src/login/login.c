#include "login/login.h"

#include <assert.h>
#include <string.h>

#include "auth/digest.h"
#include "auth/secret.h"
#include "base/text.h"
#include "broker/broker.h"
#include "cancel/cancel.h"
#include "conf/entry.h"
#include "login/authquery.h"
#include "login/console_logins.h"
#include "login/login_clocks.h"
#include "login/login_names.h"
#include "login/login_state.h"
#include "login/long_parts.h"
#include "login/method.h"
#include "login/proof.h"
#include "login/spelling.h"
#include "login/startup.h"
#include "login/verifiers.h"
#include "pool/credentials.h"
#include "session/client_transfer.h"
#include "session/memory_limit.h"
#include "session/server.h"
#include "session/workers.h"
#include "wire/codec.h"
#include "wire/message.h"

/* A client that announces a longer message than this is closed at once. */
enum { LOGIN_MESSAGE_MAX = 128 * 1024 };

static const struct conn_ops login_ops;
static const struct request_ops login_request_ops;

void login_init(struct site *site)
{
	site->login_slab = slab_new(&site->mem, "login_cache", sizeof(struct login));
	list_init(&site->console_logins);
	site->lookups = map_new();
	site->verifier_waits = map_new();
	site->no_secret = mem_zero(sizeof(*site->no_secret));
	secret_init(site->no_secret, "");
	site->sha256 = digest_new("SHA256");
	site->md5 = digest_new("MD5");
}

void login_done(struct site *site)
{
	verifiers_forget_all(site);
	map_free(&site->lookups);
	slab_free(&site->login_slab);
	secret_done(site->no_secret);
	mem_free(site->no_secret);
	digest_free(&site->sha256);
	digest_free(&site->md5);
}

static void login_free(struct client *client)
{
	struct login *login = client->login;
	if (!login)
		return;
	authquery_leave(client);
	console_logins_remove(login);
	spelling_leave(client);
	if (login->stand_in)
		database_release(login->stand_in);
	startup_done(&login->startup);
	proof_done(client);
	method_done(client);
	slab_put(client->conn.site->login_slab, login);
	client->login = NULL;
}

const char *login_user_name(const struct client *client)
{
	return client->login->startup.user;
}

/* ---- the end of the login ---- */

static void login_finish(struct client *client)
{
	struct buf buf;

	conn_set_deadline(&client->conn, 0);
	client->auth_method = (uint8_t)client->login->method;
	client_settle(client);
	cancel_give_key(
	    client, startup_protocol(&client->login->startup) == PROTOCOL_3_2);
	client->request.in_pool.is_logged_in = true;
	login_clocks_measure(client);
	buf_init(&buf, 0);
	codec_put_auth(&buf, AUTH_REQ_OK, NULL, 0);
	conn_send(&client->conn, &buf);
	buf_done(&buf);
	login_free(client);
	client->database->service->adopt(client);
	conn_unpark(&client->conn);
}

/* A replication client waits for the server connection that it gets for itself, which
 * also provides the parameters to greet it with, unless another worker knows those of
 * ordinary servers.  No ordinary server is opened for that: a client of physical
 * replication names the database "replication", which need not exist. */
static enum step login_await_params(struct client *client)
{
	bool has_own =
	    client->replication && !pool_has_login_params(client->request.in_pool.pool);
	const char *sqlstate, *text;

	enum request_kind kind = has_own ? REQUEST_REPLICATION : REQUEST_PARAMS;
	login_begin_wait(client->login, conn_now(&client->conn));
	switch (broker_ask(&client->request, kind, &sqlstate, &text)) {
	case BROKER_REFUSED:
		client_fatal_text(client, sqlstate, text);
		return STEP_CLOSE;
	case BROKER_FULL:
		client_fatal(client, ERROR_TOO_MANY_WAITING);
		return STEP_CLOSE;
	case BROKER_GRANTED:
	case BROKER_WAIT:
		break;
	}
	login_clocks_arm_params(client);
	return STEP_NEXT;
}

/* Meanwhile a RECONNECT may have made the pool forget what it greets clients with. */
static void login_spelled(struct client *client)
{
	if (broker_login_params(client->request.in_pool.pool))
		login_finish(client);
	else
		(void)login_await_params(client);
}

/* Ends the login once it is known what PostgreSQL makes of the values that the client
 * asks for. */
static enum step login_spell(struct client *client)
{
	int failed = 0;
	uint64_t unknown;

	unknown =
	    broker_spell(client->request.in_pool.pool, &client->params.vars, &failed);
	if (failed) {
		client_fatal(client, ERROR_OUT_OF_MEMORY);
		return STEP_CLOSE;
	}
	if (!unknown) {
		login_finish(client);
		return STEP_NEXT;
	}
	login_begin_wait(client->login, conn_now(&client->conn));
	spelling_begin(client, unknown, login_spelled);
	login_clocks_arm_params(client);
	return STEP_NEXT;
}

/* The keys of a SCRAM proof also serve for a server login of the same user. */
static void login_keep_keys(struct client *client, struct pool *pool)
{
	struct login *login = client->login;
	/* a later auth_query may have given the pool another secret */
	const struct secret *secret = pool_server_secret(pool);
	if (!login->has_scram || secret->kind != SECRET_SCRAM ||
	    pool->database->forced_user)
		return;
	/* the secret has changed since the proof was checked */
	if (memcmp(login->verifier.stored_key, secret->scram.stored_key,
		SCRAM_KEY_LEN) != 0)
		return;
	memcpy(pool->credentials.login_keys.client_key, login->scram.client_key,
	    SCRAM_KEY_LEN);
	memcpy(pool->credentials.login_keys.server_key, secret->scram.server_key,
	    SCRAM_KEY_LEN);
	pool->credentials.has_login_keys = true;
}

/* Counts the client against limits, after its proof, so that strangers cannot use up
 * the connections of others.  -1: a limit is exceeded; the client has got an error. */
static int login_count(struct client *client)
{
	bool exempt = client->database && client->database->is_admin &&
		      text_list_has(site_settings(client->conn.site)->admin_users,
			  client->login->startup.user);
	bool has_room = database_enter(client->database, exempt);

	client->is_counted = true;
	if (!user_may_enter(client->user, exempt) && has_room) {
		client_fatal(client, ERROR_USER_CLIENTS_EXCEEDED);
		return -1;
	}
	if (!has_room) {
		client_fatal(client, ERROR_DB_CLIENTS_EXCEEDED);
		return -1;
	}
	return 0;
}

/* Rights are checked after the proof, so that errors do not tell who exists. */
static bool login_may_use_service(struct client *client)
{
	const struct service *service =
	    client->database ? client->database->service : NULL;
	/* the owner of the process has all rights */
	if (client->is_admin || !service || !service->admit)
		return true;
	if (service->admit(client))
		return true;
	client_fatal(client, ERROR_NOT_ALLOWED);
	return false;
}

static enum step login_authenticated(struct client *client)
{
	struct site *site = client->conn.site;
	struct login *login = client->login;
	struct pool *pool;
	char word[LOG_WORD];

	if (login->is_fake_db) {
		conn_log(&client->conn, LEVEL_LOG | KIND_AUTH,
		    "login failed: db=%s user=%s", login->startup.database,
		    conn_log_word(&client->conn, word, login->startup.user));
		client_fatal(client, ERROR_NO_SUCH_DATABASE, login->startup.database);
		return STEP_CLOSE;
	}
	client_prove(client);
	if (!login_may_use_service(client))
		return STEP_CLOSE;
	assert(client->database);
	if (client->database->disabled) {
		client_fatal(client, ERROR_DATABASE_DISABLED, client->database->name);
		return STEP_CLOSE;
	}
	if (site->shutdown != SHUTDOWN_NONE && !client->database->is_admin) {
		client_fatal(client, ERROR_SHUTTING_DOWN);
		return STEP_CLOSE;
	}
	/* one that LDAP, PAM, Kerberos or an issuer of tokens knows */
	if (!client->user)
		client->user = catalog_user(site->catalog, login->startup.user);
	/* logins to servers use the password that LDAP or PAM has accepted */
	if (login->password)
		user_remember(client->user, login->password);
	if (login_count(client) < 0)
		return STEP_CLOSE;
	pool = catalog_pool(client->database, client->user);
	struct scope scope = scope_of_pool(pool);
	if (startup_check_untracked(client, &login->startup, &scope) < 0)
		return STEP_CLOSE;
	if (login->has_found)
		credential_keep_for_pool(pool, &login->found, login->found_us);
	login_keep_keys(client, pool);
	client->request.ops = &login_request_ops;
	pool_join(pool, &client->request.in_pool);
	if (!client->database->is_admin)
		return broker_login_params(pool) ? login_spell(client)
						 : login_await_params(client);
	login_finish(client);
	return STEP_NEXT;
}

static void request_admitted(struct request *request)
{
	struct client *client = request_client(request);
	if (!client->conn.is_doomed)
		(void)login_spell(client);
}

/* A replication client has got its own server, which it is greeted by and which has
 * read its values from a startup packet. */
static void request_granted(struct request *request)
{
	struct client *client = request_client(request);

	assert(client->replication);
	if (client->conn.is_doomed)
		return;
	vars_take(&client->params.vars, &client_server(client)->vars);
	login_finish(client);
}

static void request_retried(struct request *request)
{
	struct client *client = request_client(request);
	if (!client->conn.is_doomed)
		(void)login_await_params(client);
}

static void request_refused(
    struct request *request, const char *sqlstate, const char *text)
{
	client_fatal_text(request_client(request), sqlstate, text);
}

static void request_killed(struct request *request, const char *reason)
{
	client_fatal(request_client(request), error_of_reason(reason), reason);
}

static const struct request_ops login_request_ops = {
    .granted = request_granted,
    .admitted = request_admitted,
    .retried = request_retried,
    .refused = request_refused,
    .killed = request_killed,
    .conn = client_of_request,
};

/* ---- the exchange ---- */

static enum step login_ask_again(struct client *client);

static enum step login_handle_proof(struct client *client, enum proof proof)
{
	switch (proof) {
	case PROOF_DONE:
		return login_authenticated(client);
	case PROOF_FAILED:
		proof_fail(client);
		return STEP_CLOSE;
	case PROOF_REFUSED:
		return STEP_CLOSE;
	case PROOF_LATER:
		return STEP_PARK;
	case PROOF_MORE:
		break;
	}
	return STEP_NEXT;
}

/* The operating system, LDAP or PAM has answered. */
static void login_proven(struct client *client, enum proof proof)
{
	(void)login_handle_proof(client, proof);
	conn_unpark(&client->conn);
}

/* The keys have been derived: the message that was put back is read again. */
static void login_derived(struct client *client)
{
	login_await_end(client->login);
	conn_unpark(&client->conn);
}

static enum step login_check_proof(struct client *client, const struct message *m)
{
	struct login *login = client->login;
	enum proof proof = proof_message(client, m);

	if (proof != PROOF_FAILED || !login->may_be_outdated)
		return login_handle_proof(client, proof);
	if (login->phase == LOGIN_PASSWORD)
		return login_ask_again(client);
	/* a SCRAM exchange cannot change its secret; the next login runs the query
	 * again */
	credential_forget(login_asked_database(client), login->startup.user);
	return login_handle_proof(client, proof);
}

static enum step login_part(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len)
{
	(void)block, (void)p, (void)len;
	if (conn->passing > 0)
		return STEP_NEXT;
	proof_fail(conn_client(conn));
	return STEP_CLOSE;
}

static enum step login_message(struct conn *conn, const struct message *m)
{
	struct client *client = conn_client(conn);

	if (m->type == 0) {
		client_fatal(client, ERROR_RESENT_STARTUP);
		return STEP_CLOSE;
	}
	if (m->type == 'X') {
		conn_doom_quietly(conn, "client close request");
		return STEP_CLOSE;
	}
	if (client->login->phase == LOGIN_AWAIT)
		return STEP_PARK; /* the client sent it early */
	if (client->login->phase == LOGIN_PARAMS && m->type != 'p')
		return STEP_PARK; /* sent early; it is for the service */
	if (client->login->phase == LOGIN_LOOKUP && m->type == 'p')
		return STEP_PARK; /* sent early; it is for the exchange that follows */
	if (m->type != 'p' || client->login->phase == LOGIN_PARAMS ||
	    m->size > LOGIN_MESSAGE_MAX) {
		conn_doom(conn, "%s", error_text(ERROR_BAD_PACKET));
		return STEP_CLOSE;
	}
	if (proof_is_too_long(client, m)) {
		/* A message that is longer than any proof is not kept.  The client gets
		 * the error of a wrong proof when it has sent all of it, because many
		 * clients read no error before. */
		if (!message_is_whole(m))
			return STEP_NEXT;
		proof_fail(client);
		return STEP_CLOSE;
	}
	if (!message_is_whole(m)) {
		long_parts_make_room(client, m->have);
		return STEP_MORE;
	}
	return login_check_proof(client, m);
}

static void login_ended(struct conn *conn, const struct err *err)
{
	conn_log_tls_failure(conn, err);
	if (conn_client(conn)->login->phase == LOGIN_PARAMS)
		conn_doom(conn, "client unexpected eof");
	else
		conn_doom_quietly(conn, "client unexpected eof");
}

static void login_closed(struct conn *conn, const char *reason)
{
	struct client *client = conn_client(conn);
	struct server *server = client_server(client);
	(void)reason;
	if (server)
		server_abandon(server, "replication client disconnected");
	client_leave(client);
	login_free(client);
}

/* A refused client is logged with the user and database that it asked for. */
static void login_name_it(const struct conn *conn, struct conn_name *out)
{
	const struct client *client = conn_client(conn);

	if (client->user || !client->login || !client->login->is_named)
		client_name_it(conn, out);
	else
		out->user = client->login->startup.user;
}

static bool login_waits(const struct conn *conn)
{
	enum login_phase phase = conn_client(conn)->login->phase;

	return phase == LOGIN_LOOKUP || phase == LOGIN_PARAMS;
}

static const struct conn_ops login_ops = {
    .name = "login",
    .name_it = login_name_it,
    .message = login_message,
    .part = login_part,
    .expired = login_clocks_expired,
    .review = login_clocks_review,
    .malformed = client_malformed,
    .ended = login_ended,
    .closed = login_closed,
    .waits = login_waits,
    .has_secrets = true,
};

bool login_is_at_work(const struct client *client)
{
	return client->conn.ops == &login_ops && login_is_waiting(client->login);
}

/* ---- database and user ---- */

static void login_log_attempt(const struct client *client)
{
	const struct startup *startup = &client->login->startup;
	char tls[TLS_TEXT];

	conn_log(&client->conn, LEVEL_LOG | KIND_CONNECTIONS,
	    "login attempt: db=%s user=%s tls=%s replication=%s", startup->database,
	    startup->user, conn_tls_text(&client->conn, tls, "no"),
	    client_replication_word(client));
}

/* User and secret are known, or known to be missing: asks for the proof. */
static enum step login_prove(struct client *client)
{
	login_log_attempt(client);
	return login_handle_proof(client, proof_begin(client));
}

/* auth_query has found a secret. */
static void login_found(struct client *client)
{
	client->user = client->login->found_user;
	client->login->phase = LOGIN_PASSWORD;
	login_clocks_review(&client->conn);
	if (login_prove(client) != STEP_CLOSE)
		conn_unpark(&client->conn);
}

/* auth_query has run again, because the password did not fit the cached secret. */
static void login_found_again(struct client *client)
{
	client->login->phase = LOGIN_PASSWORD;
	login_clocks_review(&client->conn);
	if (client->login->found_user == client->user)
		conn_unpark(&client->conn);
	else
		proof_fail(client);
}

static void login_await_lookup(struct client *client)
{
	client->login->phase = LOGIN_LOOKUP;
	login_clocks_arm_lookup(client);
}

static enum step login_ask_again(struct client *client)
{
	if (authquery_begin(client, true, login_found_again) == AUTHQUERY_REFUSED)
		return STEP_CLOSE;
	login_await_lookup(client);
	return STEP_PARK;
}

static enum step login_settle_user(struct client *client)
{
	switch (login_names_find_user(client, login_found)) {
	case AUTHQUERY_FOUND:
		return login_prove(client);
	case AUTHQUERY_WAIT:
		login_await_lookup(client);
		return STEP_NEXT;
	case AUTHQUERY_REFUSED:
		break;
	}
	return STEP_CLOSE;
}

/* The name of the client's host has been looked up, so the method is known. */
static void login_method_known(struct client *client)
{
	login_await_end(client->login);
	(void)login_settle_user(client);
	conn_unpark(&client->conn);
}

static enum step login_settle(struct client *client)
{
	struct login *login = client->login;

	login_names_find_database(client);
	/* who the user is remains to be proven, so that its own settings must not show
	 */
	bool is_real = client->database && !client->database->is_admin;
	struct scope scope;
	if (is_real)
		scope = scope_of_database(client->database);
	/* what is refused because of its packet is logged without names */
	login->is_named = false;
	if (startup_check_untracked(client, &login->startup, is_real ? &scope : NULL) <
	    0)
		return STEP_CLOSE;
	login->is_named = true;
	/* on the unix socket, the process's own account needs no password for the
	 * console */
	if (client->database && client->database->is_admin && client->is_unix_owner &&
	    strcmp(client->login->startup.user, "pgbouncer") == 0) {
		client->user = catalog_user(client->conn.site->catalog, "pgbouncer");
		client->is_admin = true;
		conn_log(&client->conn, LEVEL_LOG | KIND_AUTH,
		    "pgbouncer access from unix socket");
		login_log_attempt(client);
		return login_authenticated(client);
	}
	if (strlen(login->startup.sent_user) > USER_NAME_MAX) {
		client_fatal(client, ERROR_USERNAME_TOO_LONG);
		return STEP_CLOSE;
	}
	if (method_choose(client, login_method_known) == METHOD_LATER) {
		login_await(login);
		return STEP_NEXT;
	}
	return login_settle_user(client);
}

/* ---- the startup packet ---- */

bool login_is_full(const struct site *site)
{
	return (long long)workers_client_count(site) >
	       site_settings(site)->max_client_conn;
}

static bool login_is_for_console(const struct client *client)
{
	return strcmp(client->login->startup.database, "pgbouncer") == 0;
}

/* -1: max_client_conn or memory_limit leaves no room; the client has got an error.  For
 * the console there is some room beyond it. */
static int login_find_room(struct client *client)
{
	struct site *site = client->conn.site;
	bool is_full = login_is_full(site);

	if (login_is_for_console(client)) {
		console_logins_add(client->login, is_full);
		return client->conn.is_doomed ? -1 : 0;
	}
	if (!is_full && !memory_limit_refuses(site))
		return 0;
	client_fatal(client, is_full ? ERROR_NO_MORE_CONNECTIONS : ERROR_MEMORY_LIMIT);
	return -1;
}

enum step login_begin(struct client *client, const struct message *m)
{
	struct login *login = slab_get(client->conn.site->login_slab);
	struct buf buf;

	client->login = login;
	login->client = client;
	login->method = AUTH_NONE;
	login->proven = login_proven;
	login->derived = login_derived;
	conn_hand_on(&client->conn, &login_ops);
	startup_init(&login->startup, m->code);
	if (startup_read(client, &login->startup, m) < 0)
		return STEP_CLOSE;
	login->is_named = true;
	/* with several workers, clients of the console are served by the control site
	 */
	if (!workers_is_control(client->conn.site) && login_is_for_console(client)) {
		/* sends the client to the control site, where its login begins anew */
		login_free(client);
		startup_forget(client);
		client_transfer_first_packet(
		    client, workers_control(client->conn.site->worker->workers));
		return STEP_PARK;
	}
	if (login_find_room(client) < 0)
		return STEP_CLOSE;
	if (client->is_spare && !login_is_for_console(client)) {
		client_fatal(client, ERROR_NO_MORE_DESCRIPTORS);
		return STEP_CLOSE;
	}
	struct startup *startup = &client->login->startup;
	if (startup_needs_negotiation(startup)) {
		buf_init(&buf, 0);
		codec_put_negotiate(&buf, startup_protocol(startup),
		    (const char *const *)startup->unsupported,
		    startup->unsupported_count);
		conn_send(&client->conn, &buf);
		buf_done(&buf);
		startup_forget_unsupported(startup);
	}
	return login_settle(client);
}
