/*
 * OAUTHBEARER with a client.  Tokens are checked on helper threads; for the keys of an
 * issuer a login waits at most once.  Nothing depends on whether there is such a user
 * or database before the token is known to be good.
 */
#include "login/proof_oauth.h"

#include <string.h>

#include "auth/oauth_check.h"
#include "auth/oauth_message.h"
#include "base/text.h"
#include "login/login_state.h"
#include "login/proof_external.h"
#include "login/proof_sasl.h"
#include "session/oauth_issuers.h"
#include "wire/codec.h"

const char *proof_oauth_issuer(
    const struct hba_rule *rule, const struct settings *settings)
{
	return rule ? rule->issuer : settings->oauth_issuer;
}

const char *proof_oauth_scope(
    const struct hba_rule *rule, const struct settings *settings)
{
	return rule ? rule->scope : settings->oauth_scope;
}

static const char *issuer_of(const struct client *client)
{
	return proof_oauth_issuer(
	    client->login->rule, site_settings(client->conn.site));
}

enum proof proof_oauth_begin(struct client *client)
{
	static const char *const mechanisms[] = {OAUTH_MECHANISM, NULL};
	struct login *login = client->login;
	enum error_id missing = method_missing_external(
	    login->method, login->rule, site_settings(client->conn.site));
	struct buf buf;

	if (!stream_tls(&client->conn.stream))
		missing = ERROR_OAUTH_NEEDS_TLS;
	if (missing != ERROR_COUNT) {
		client_fatal(client, missing);
		return PROOF_REFUSED;
	}
	login->phase = LOGIN_SASL_INITIAL;
	buf_init(&buf, 0);
	codec_put_auth_sasl(&buf, mechanisms);
	conn_send(&client->conn, &buf);
	buf_done(&buf);
	return PROOF_MORE;
}

/* ---- the result ---- */

/* Tells the client where it gets a token.  When it has answered, the login fails. */
static enum proof refuse(struct client *client)
{
	const struct settings *s = site_settings(client->conn.site);
	struct login *login = client->login;
	struct buf status;

	buf_init(&status, 0);
	oauth_message_put_status(&status, proof_oauth_issuer(login->rule, s),
	    proof_oauth_scope(login->rule, s));
	proof_send_auth(client, AUTH_REQ_SASL_CONTINUE, status.bytes, status.len);
	buf_done(&status);
	login->phase = LOGIN_SASL_FINAL;
	return PROOF_MORE;
}

static enum proof check(struct client *client);

static void keys_come(struct oauth_keys_wait *wait)
{
	struct login *login = container_of(wait, struct login, keys_wait);
	struct client *client = login->client;
	enum proof proof;

	login_await_end(login);
	if (client->conn.is_doomed)
		return;
	proof = check(client);
	if (login->phase != LOGIN_AWAIT)
		login->proven(client, proof);
}

/* These keys, or NULL, do not suffice. */
static enum proof want_keys(
    struct client *client, const struct oauth_keys *known, const char *why)
{
	struct login *login = client->login;
	enum oauth_keys_news news = OAUTH_KEYS_NONE;

	login->keys_wait.done = keys_come;
	if (!login->rules->oauth_keys && !login->has_waited) {
		login->has_waited = true;
		news = oauth_issuers_fetch(
		    client->conn.site, issuer_of(client), known, &login->keys_wait);
	}
	if (news == OAUTH_KEYS_NEWER)
		return check(client);
	if (news == OAUTH_KEYS_LATER) {
		login_await(login);
		return PROOF_MORE;
	}
	conn_log(&client->conn, LEVEL_WARNING | KIND_AUTH, "%s", why);
	return refuse(client);
}

static void checked(struct oauth_check *answer)
{
	struct client *client = answer->owner;
	struct login *login = client->login;
	const char *map = login->rule ? login->rule->map : NULL;
	bool is_his =
	    answer->verdict == OAUTH_VALID &&
	    (answer->request.is_delegated ||
		ident_may(login->rules->ident, map, answer->name, login->startup.user));
	char word[LOG_WORD], other[LOG_WORD];

	login->job = NULL;
	login_await_end(login);
	if (client->conn.is_doomed)
		return;
	switch (answer->verdict) {
	case OAUTH_UNKNOWN_KEY:
		break;
	case OAUTH_INVALID:
		conn_log(
		    &client->conn, LEVEL_WARNING | KIND_AUTH, "%s", answer->err.text);
		break;
	case OAUTH_VALID:
		conn_log(&client->conn,
		    (is_his ? LEVEL_LOG : LEVEL_WARNING) | KIND_AUTH,
		    "the token is that of %s, who may %slog in as %s%s%s",
		    answer->name ? conn_log_word(&client->conn, word, answer->name)
				 : "somebody",
		    is_his ? "" : "not ",
		    conn_log_word(&client->conn, other, login->startup.user),
		    map ? " by the ident map " : "", map ? map : "");
		break;
	}
	enum proof proof =
	    answer->verdict == OAUTH_UNKNOWN_KEY
		? want_keys(client, answer->request.keys, answer->err.text)
	    : is_his ? PROOF_DONE
		     : refuse(client);
	if (login->phase != LOGIN_AWAIT)
		login->proven(client, proof);
}

/* ---- the check ---- */

static enum proof check(struct client *client)
{
	struct site *site = client->conn.site;
	const struct settings *s = site_settings(site);
	struct login *login = client->login;
	struct oauth_request request = {
	    .token = login->token,
	    .token_len = strlen(login->token),
	    .issuer = issuer_of(client),
	    .scope = proof_oauth_scope(login->rule, s),
	    .audience = s->oauth_audience,
	    .name_claim = s->oauth_name_claim,
	    .command = text_or_null(s->oauth_validator_command),
	    .user = login->startup.user,
	    .database = login->startup.database,
	};
	struct oauth_check *question;

	/* only a program can decide it, and a reload may have taken that away */
	request.is_delegated =
	    request.command && login->rule && login->rule->is_delegated;
	if (!request.command) {
		request.keys = login->rules->oauth_keys
				   ? oauth_keys_ref(login->rules->oauth_keys)
				   : oauth_issuers_keys(site, request.issuer);
		if (!request.keys)
			return want_keys(client, NULL,
			    "the keys of the token's issuer are not there");
	}
	conn_log(&client->conn, LEVEL_DEBUG | KIND_AUTH, "checking a token");
	question = oauth_check_new(&request, login_lane(client), checked, client);
	oauth_keys_unref(&request.keys);
	if (!question) {
		client_fatal(client, ERROR_OUT_OF_MEMORY);
		return PROOF_REFUSED;
	}
	if (proof_external_submit(client, &question->job) == 0)
		return PROOF_MORE;
	oauth_check_discard(question);
	return PROOF_REFUSED;
}

enum proof proof_oauth_message(struct client *client, const struct message *m)
{
	struct login *login = client->login;
	const uint8_t *data = message_body(m);
	size_t len = message_body_len(m), token_len = 0;
	const char *mechanism, *token = NULL;
	enum oauth_message kind;
	struct buf buf;
	struct err err;

	if (login->phase == LOGIN_SASL_INITIAL && !login->is_selected) {
		if (codec_read_sasl_initial(data, len, &mechanism, &data, &len) < 0)
			return PROOF_MORE; /* the login timeout ends it */
		if (strcmp(mechanism, OAUTH_MECHANISM) != 0) {
			client_fatal(client, ERROR_BAD_MECHANISM);
			return PROOF_REFUSED;
		}
		login->is_selected = true;
		if (!data) {
			proof_send_auth(client, AUTH_REQ_SASL_CONTINUE, "", 0);
			return PROOF_MORE;
		}
	}
	if (login->phase == LOGIN_SASL_FINAL && oauth_message_is_end(data, len)) {
		if (!login->is_question)
			return PROOF_FAILED;
		/* every driver begins so, which is no warning */
		client->conn.site->errors_told[ERROR_OAUTH_QUESTION]++;
		buf_init(&buf, 0);
		codec_put_error(&buf, "FATAL", error_sqlstate(ERROR_OAUTH_QUESTION),
		    error_text(ERROR_OAUTH_QUESTION), NULL, NULL);
		client_say(client, &buf);
		buf_done(&buf);
		conn_doom(&client->conn, "%s", error_text(ERROR_OAUTH_QUESTION));
		return PROOF_REFUSED;
	}
	kind = OAUTH_MESSAGE_MALFORMED;
	if (login->phase == LOGIN_SASL_FINAL)
		err_set(&err, "the client does not answer to the status of its token");
	else
		kind = oauth_message_read(data, len, &token, &token_len, &err);
	switch (kind) {
	case OAUTH_MESSAGE_TOKEN:
		break;
	case OAUTH_MESSAGE_NO_TOKEN:
		conn_log(&client->conn, LEVEL_WARNING | KIND_AUTH, "%s", err.text);
		return refuse(client);
	case OAUTH_MESSAGE_QUESTION:
		login->is_question = true;
		return refuse(client);
	case OAUTH_MESSAGE_MALFORMED:
		conn_log(&client->conn, LEVEL_ERROR | KIND_AUTH, "%s", err.text);
		client_fatal(client, ERROR_OAUTH_MALFORMED);
		return PROOF_REFUSED;
	}
	login->token = mem_try(token_len + 1);
	if (!login->token) {
		client_fatal(client, ERROR_OUT_OF_MEMORY);
		return PROOF_REFUSED;
	}
	memcpy(login->token, token, token_len);
	login->token[token_len] = '\0';
	return check(client);
}
