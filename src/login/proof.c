#include "login/proof.h"

#include <string.h>

#include "auth/scram.h"
#include "auth/secret.h"
#include "login/login_state.h"
#include "login/proof_external.h"
#include "login/proof_gss.h"
#include "login/proof_oauth.h"
#include "login/proof_sasl.h"
#include "login/verifiers.h"
#include "net/tls.h"
#include "session/oauth_issuers.h"
#include "session/salted.h"
#include "wire/codec.h"

/* The longest messages that PostgreSQL reads in a login, without their type byte.  The
 * smaller one also holds for the answer to an md5 request, which has 35 bytes. */
enum { SASL_MESSAGE_MAX = 1024, PASSWORD_MESSAGE_MAX = 65535 };

void proof_fail(struct client *client)
{
	client_fatal(
	    client, method_failure(client->login->method), client->login->startup.user);
}

/* Channel binding is required, and with this method a man in the middle could read the
 * password. */
static enum proof proof_unbound(struct client *client)
{
	client_fatal(client, ERROR_BINDING_REQUIRED);
	return PROOF_REFUSED;
}

/* The names in a client's certificate, as the matching of ident maps asks for them. */
struct certified {
	const struct tls *tls; /* borrowed */
	char *last;            /* owned: the name that was returned last */
};

static bool is_certified_name(void *ctx, const char *name)
{
	const struct certified *certified = ctx;
	return tls_peer_is_named(certified->tls, name);
}

static const char *certified_name_at(void *ctx, size_t i)
{
	struct certified *certified = ctx;

	mem_free(certified->last);
	certified->last = tls_peer_name_at(certified->tls, i);
	return certified->last;
}

/* May a client with this certificate log in as the user, by the ident map of the rule?
 */
static bool has_certificate(const struct client *client, const struct tls *tls)
{
	const struct login *login = client->login;
	struct certified certified = {.tls = tls};
	const struct ident_names names = {
	    .is_name = is_certified_name,
	    .name_at = certified_name_at,
	    .ctx = &certified,
	};

	bool is_his = ident_may_any(login->rules ? login->rules->ident : NULL,
	    login->rule ? login->rule->map : NULL, &names, login->startup.user);
	mem_free(certified.last);
	return is_his;
}

/* The error for the client is the same whatever is wrong with its certificate. */
static enum proof proof_certificate(const struct client *client)
{
	const struct login *login = client->login;
	const struct conn *conn = &client->conn;
	const struct tls *tls = stream_tls(&conn->stream);

	if (!tls)
		conn_log(conn, LEVEL_ERROR | KIND_AUTH, "TLS connection required");
	else if (!tls_has_client_certificate(tls))
		conn_log(
		    conn, LEVEL_ERROR | KIND_AUTH, "TLS client certificate required");
	else if (!login->is_mock && has_certificate(client, tls))
		return PROOF_DONE;
	else if (login->rule && login->rule->map)
		conn_log(conn, LEVEL_ERROR | KIND_AUTH,
		    "ident map: %s does not have a match", login->rule->map);
	else
		conn_log(
		    conn, LEVEL_ERROR | KIND_AUTH, "TLS certificate name mismatch");
	return PROOF_FAILED;
}

enum proof proof_begin(struct client *client)
{
	struct login *login = client->login;
	const struct userlist *list = client->conn.site->catalog->list;
	enum error_id missing;

	switch (login->method) {
	case AUTH_ANY:
		return PROOF_DONE;
	case AUTH_TRUST:
		return login->is_mock ? PROOF_FAILED : PROOF_DONE;
	case AUTH_CERT:
		return proof_certificate(client);
	case AUTH_PEER:
		return login->is_mock ? PROOF_FAILED
				      : proof_external_ask_account(client);
	case AUTH_LDAP:
	case AUTH_PAM:
		missing = method_missing_external(
		    login->method, login->rule, site_settings(client->conn.site));
		if (missing != ERROR_COUNT) {
			client_fatal(client, missing);
			return PROOF_REFUSED;
		}
		/* fallthrough */
	case AUTH_PLAIN:
		if (proof_requires_binding(client))
			return proof_unbound(client);
		login->phase = LOGIN_PASSWORD;
		proof_send_auth(client, AUTH_REQ_CLEARTEXT, NULL, 0);
		return PROOF_MORE;
	case AUTH_MD5:
		if (method_asks_scram(login->method, login_secret(client)->kind,
			list && userlist_is_mostly_scram(list)))
			return proof_sasl_begin(client);
		if (proof_requires_binding(client))
			return proof_unbound(client);
		login->phase = LOGIN_PASSWORD;
		mem_draw(&client->conn.site->mem, login->salt, sizeof(login->salt));
		proof_send_auth(client, AUTH_REQ_MD5, login->salt, sizeof(login->salt));
		return PROOF_MORE;
	case AUTH_SCRAM:
		return proof_sasl_begin(client);
	case AUTH_OAUTH:
		return proof_requires_binding(client) ? proof_unbound(client)
						      : proof_oauth_begin(client);
	case AUTH_GSS:
		if (proof_requires_binding(client))
			return proof_unbound(client);
		login->phase = LOGIN_GSS;
		proof_send_auth(client, AUTH_REQ_GSS, NULL, 0);
		return PROOF_MORE;
	default:
		return PROOF_FAILED;
	}
}

static void cleartext_derived(struct key_job *key_job)
{
	struct client *client = key_job->owner;
	struct login *login = client->login;
	const struct secret *secret = login_secret(client);

	login->job = NULL;
	login->was_derived = true;
	if (key_job->has_failed)
		client_fatal(client, ERROR_OUT_OF_MEMORY);
	login->is_right =
	    !key_job->has_failed && secret_is_salted(secret, key_job->salted);
	if (login->is_right)
		salted_keep(client->conn.site, &key_job->due, key_job->salted);
	login->derived(client);
}

/* The password in clear.  A wrong one costs one key derivation, whatever secret the
 * user has and whether there is such a user: otherwise the time of the answer would
 * tell which users exist. */
static enum proof proof_cleartext(struct client *client, const char *password)
{
	struct login *login = client->login;
	const struct secret *secret = login_secret(client);
	uint8_t salted[SCRAM_KEY_LEN];
	struct scram_due due;
	struct err err;
	int is_there;

	if (login->was_derived) {
		login->was_derived = false;
		return login->is_right ? PROOF_DONE : PROOF_FAILED;
	}
	if (!secret_prepare(secret, password, &due)) {
		if (secret_is_password(secret, login->startup.user, password))
			return PROOF_DONE;
		return proof_fail_slowly(client);
	}
	is_there = salted_derive(client->conn.site, &due, login_lane(client),
	    cleartext_derived, client, salted, &login->job, &err);
	if (is_there < 0) {
		client_fatal_text(client, err.sqlstate, err.text);
		return PROOF_REFUSED;
	}
	if (is_there) {
		login->is_right = secret_is_salted(secret, salted);
		mem_wipe(salted, sizeof(salted));
		return login->is_right ? PROOF_DONE : PROOF_FAILED;
	}
	login_await(login);
	return PROOF_LATER;
}

/* A cleartext password may be as long as PostgreSQL lets it be, because LDAP and PAM
 * also take tokens; so may a token of OAuth, and a ticket, which may list the groups of
 * the user; so many bytes wait only for those who have really sent them. */
bool proof_is_too_long(const struct client *client, const struct message *m)
{
	const struct login *login = client->login;
	bool is_cleartext =
	    (login->phase == LOGIN_PASSWORD && login->method != AUTH_MD5) ||
	    login->method == AUTH_OAUTH;
	bool is_gss = login->phase == LOGIN_GSS;
	size_t most = is_cleartext || is_gss ? PASSWORD_MESSAGE_MAX : SASL_MESSAGE_MAX;

	if (m->size - 1 <= most)
		return false;
	conn_log(&client->conn, LEVEL_ERROR | KIND_AUTH,
	    "a %s message of %llu bytes is too long",
	    is_gss                           ? "GSSAPI"
	    : login->phase == LOGIN_PASSWORD ? "password"
					     : "SASL",
	    (unsigned long long)m->size - 1);
	return true;
}

enum proof proof_message(struct client *client, const struct message *m)
{
	const char *password;

	if (client->login->phase == LOGIN_PASSWORD) {
		struct login *login = client->login;
		const struct secret *secret = login_secret(client);
		if (codec_read_password(
			message_body(m), message_body_len(m), &password) < 0)
			return PROOF_MORE; /* an incomplete message;
					      client_login_timeout ends the wait */
		if (*password == '\0') {
			client_fatal(client, ERROR_EMPTY_PASSWORD);
			return PROOF_REFUSED;
		}
		if (method_is_external(login->method))
			return proof_external_ask_password(client, password);
		if (login->method == AUTH_PLAIN)
			return proof_cleartext(client, password);
		if (login->is_mock ||
		    !secret_is_md5_answer(client->conn.site->md5, secret,
			login->startup.sent_user, login->salt, password))
			return PROOF_FAILED;
		return PROOF_DONE;
	}
	if (client->login->phase == LOGIN_GSS)
		return proof_gss_message(client, m);
	return client->login->method == AUTH_OAUTH ? proof_oauth_message(client, m)
						   : proof_sasl_message(client, m);
}

void proof_done(struct client *client)
{
	struct login *login = client->login;
	if (login->job)
		helpers_cancel(login->job);
	oauth_issuers_leave(&login->keys_wait);
	verifiers_leave(client);
	kerberos_exchange_free(&login->kerberos);
	mem_free_secret(login->password);
	mem_free_secret(login->sasl_password);
	mem_free_secret(login->token);
	if (login->has_scram)
		scram_server_done(&login->scram);
	scram_verifier_done(&login->verifier);
	if (login->has_found)
		secret_done(&login->found);
}
