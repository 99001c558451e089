/*
 * Answers a server that asks for a proof: cleartext, md5, SCRAM, a token;
 * dial_kerberos.c does for GSSAPI.  The owner of the attempt has the secret.
 */
#include "broker/dial_auth.h"

#include <string.h>

#include "auth/oauth_message.h"
#include "auth/scram.h"
#include "auth/secret.h"
#include "base/errors.h"
#include "broker/dial_attempt.h"
#include "broker/dial_kerberos.h"
#include "broker/dial_password.h"
#include "session/salted.h"
#include "wire/codec.h"

static enum step dial_wrong_password(struct server *server, const char *what)
{
	conn_log(&server->conn, LEVEL_ERROR | KIND_SERVERS,
	    "cannot do %s authentication: wrong password type", what);
	dial_fail(server, DIAL_LOGIN, error_text(ERROR_WRONG_PASSWORD_TYPE),
	    error_sqlstate(ERROR_WRONG_PASSWORD_TYPE), "failed to answer authreq");
	return STEP_CLOSE;
}

static enum step dial_proof_failed(struct server *server, const struct err *err)
{
	char text[sizeof(err->text) + 32];
	conn_log(&server->conn, LEVEL_ERROR | KIND_SERVERS, "%s", err->text);
	error_print(text, sizeof(text), ERROR_SERVER_LOGIN_FAILED, err->text);
	dial_fail(server, DIAL_LOGIN, text, error_sqlstate(ERROR_SERVER_LOGIN_FAILED),
	    "failed to answer authreq");
	return STEP_CLOSE;
}

static enum step dial_answer_md5(
    struct server *server, const struct secret *secret, const uint8_t *data, size_t len)
{
	char answer[MD5_TEXT_LEN + 1];
	struct buf buf;

	if (len != 4) {
		dial_fail_network(server, "failed to answer authreq");
		return STEP_CLOSE;
	}
	if (secret_md5_answer(secret, dial_identity(server).user, data, answer) < 0)
		return dial_wrong_password(server, "MD5");
	buf_init(&buf, 0);
	codec_put_password(&buf, answer);
	conn_send(&server->conn, &buf);
	buf_wipe_done(&buf);
	return STEP_NEXT;
}

static enum step dial_answer_plain(struct server *server, const struct secret *secret)
{
	struct buf buf;
	struct err err;

	if (!dial_password_may_be_shown(server)) {
		err_set(&err,
		    "the server asks for the password in clear text, which is "
		    "sent only inside TLS or over a unix socket");
		return dial_proof_failed(server, &err);
	}
	/* only a plain password is sent: with a hash or verifier the server could log
	 * in elsewhere as the user */
	if (secret->kind != SECRET_PLAIN)
		return dial_wrong_password(server, "cleartext");
	buf_init(&buf, 0);
	codec_put_password(&buf, secret->text);
	conn_send(&server->conn, &buf);
	buf_wipe_done(&buf);
	return STEP_NEXT;
}

/* Not over a unix socket, where a man in the middle is not possible. */
static bool dial_requires_binding(const struct server *server)
{
	return server->conn.remote.family != AF_UNIX &&
	       scope_server_channel_binding(dial_identity(server).scope) ==
		   CHANNEL_BINDING_REQUIRE;
}

/* The channel binding to use; NULL: none. */
static const struct scram_binding *dial_binding(struct server *server)
{
	const struct tls *tls = stream_tls(&server->conn.stream);
	struct dial *dial = server->dial;
	struct scram_binding *binding = &dial->binding;

	if (server->conn.remote.family == AF_UNIX ||
	    scope_server_channel_binding(dial_identity(server).scope) ==
		CHANNEL_BINDING_DISABLE)
		return NULL;
	if (tls && tls_end_point_hash(tls, false, dial->end_point, &binding->len) == 0)
		binding->hash = dial->end_point;
	binding->is_required = dial_requires_binding(server);
	return binding;
}

/* Checks that channel binding was used if it is required.  -1: it was not; the attempt
 * has failed. */
static int dial_check_binding(struct server *server)
{
	const struct dial *dial = server->dial;
	struct err err;

	if (!dial_requires_binding(server) ||
	    (dial->is_authenticated && dial->scram.gs2_flag == 'p'))
		return 0;
	err_set(
	    &err, "channel binding is required, but the server does not ask for SCRAM");
	(void)dial_proof_failed(server, &err);
	return -1;
}

/* Sends the token that a program or file gives, and nothing else: whoever reads a token
 * can use it. */
static enum step dial_answer_oauth(struct server *server)
{
	struct dial *dial = server->dial;
	struct buf out, message;
	struct err err;
	int rc;

	if (!dial->fetched.text) {
		err_set(&err, "the server asks for an OAuth token, which only "
			      "server_password_command or server_password_file gives");
		return dial_proof_failed(server, &err);
	}
	if (!dial_password_may_be_shown(server)) {
		err_set(&err, "the server asks for an OAuth token, which is sent only "
			      "inside TLS or over a unix socket");
		return dial_proof_failed(server, &err);
	}
	buf_init(&out, 0);
	rc = oauth_message_put_token(&out, dial->fetched.text);
	if (rc < 0)
		err_set(&err, "the server asks for an OAuth token, and the password "
			      "that was fetched is none");
	else {
		buf_init(&message, 0);
		codec_put_sasl_initial(&message, OAUTH_MECHANISM, out.bytes, out.len);
		conn_send(&server->conn, &message);
		buf_wipe_done(&message);
		dial->has_sent_token = true;
	}
	buf_wipe_done(&out);
	return rc < 0 ? dial_proof_failed(server, &err) : STEP_NEXT;
}

static enum step dial_begin_sasl(struct server *server, const uint8_t *data, size_t len)
{
	const struct dial_identity who = dial_identity(server);
	const struct secret *secret = who.secret;
	struct dial *dial = server->dial;
	const struct scram_binding *binding = dial_binding(server);
	const char *mechanism;
	struct buf out, message;
	struct err err;

	if (secret->kind == SECRET_PLAIN) {
		dial->password = mem_strdup(secret->text);
		scram_client_init(
		    &dial->scram, dial->password, NULL, who.cache, binding);
	} else if (secret->kind == SECRET_SCRAM && who.pass_through) {
		dial->keys = *who.pass_through;
		scram_client_init(&dial->scram, NULL, &dial->keys, NULL, binding);
	} else if (secret->kind == SECRET_SCRAM) {
		conn_log(&server->conn, LEVEL_ERROR | KIND_SERVERS,
		    "cannot do SCRAM authentication: password is SCRAM secret but "
		    "client "
		    "authentication did not provide SCRAM keys");
		dial_fail(server, DIAL_LOGIN, error_text(ERROR_WRONG_PASSWORD_TYPE),
		    error_sqlstate(ERROR_WRONG_PASSWORD_TYPE),
		    "failed to answer authreq");
		return STEP_CLOSE;
	} else
		return dial_wrong_password(server, "SCRAM");
	dial->has_scram = true;
	mechanism = scram_client_select(&dial->scram,
	    codec_sasl_offers_mechanism(data, len, SCRAM_MECHANISM),
	    codec_sasl_offers_mechanism(data, len, SCRAM_MECHANISM_PLUS), &err);
	if (!mechanism)
		return dial_proof_failed(server, &err);
	buf_init(&out, 0);
	buf_init(&message, 0);
	if (scram_client_step(&dial->scram, NULL, 0, &out, &err) == SCRAM_FAIL) {
		buf_done(&out);
		return dial_proof_failed(server, &err);
	}
	codec_put_sasl_initial(&message, mechanism, out.bytes, out.len);
	conn_send(&server->conn, &message);
	buf_wipe_done(&message);
	buf_wipe_done(&out);
	return STEP_NEXT;
}

static void dial_send_sasl(struct server *server, struct buf *out)
{
	struct buf message;

	if (out->len > 0) {
		buf_init(&message, 0);
		codec_put_sasl_response(&message, out->bytes, out->len);
		conn_send(&server->conn, &message);
		buf_wipe_done(&message);
	}
	buf_wipe_done(out);
}

/* Uses the cache of keys only if the password is still the same. */
static void dial_find_cache(struct server *server)
{
	const struct dial_identity who = dial_identity(server);
	struct dial *dial = server->dial;

	if (dial->password)
		dial->scram.cache =
		    strcmp(dial->password, who.secret->text) == 0 ? who.cache : NULL;
}

/* The keys have been derived: sends the proof. */
static enum step dial_prove(struct server *server, const uint8_t salted[SCRAM_KEY_LEN])
{
	struct dial *dial = server->dial;
	struct buf out;
	struct err err;

	dial_find_cache(server);
	memcpy(dial->salted, salted, SCRAM_KEY_LEN);
	dial->has_salted = true;
	buf_init(&out, 0);
	if (scram_client_resume(&dial->scram, salted, &out, &err) == SCRAM_FAIL) {
		buf_wipe_done(&out);
		return dial_proof_failed(server, &err);
	}
	dial_send_sasl(server, &out);
	return STEP_NEXT;
}

static void dial_derived(struct key_job *key_job)
{
	struct server *server = key_job->owner;

	struct err err;

	server->dial->job = NULL;
	if (server->conn.is_doomed)
		return;
	if (key_job->has_failed) {
		err_set_row(&err, ERROR_OUT_OF_MEMORY);
		(void)dial_proof_failed(server, &err);
	} else {
		(void)dial_prove(server, key_job->salted);
	}
}

/* Derives the keys.  A server that sends anything before it gets the proof fails. */
static enum step dial_derive(struct server *server)
{
	struct dial *dial = server->dial;
	struct scram_due due = scram_client_due(&dial->scram);
	uint8_t salted[SCRAM_KEY_LEN];
	struct err err;
	enum step step;

	switch (salted_derive(server->conn.site, &due,
	    salted_lane_of_database(server->conn.site, dial_identity(server).lane),
	    dial_derived, server, salted, &dial->job, &err)) {
	case 0:
		return STEP_NEXT;
	case 1:
		step = dial_prove(server, salted);
		mem_wipe(salted, sizeof(salted));
		return step;
	}
	return dial_proof_failed(server, &err);
}

static enum step dial_continue_sasl(
    struct server *server, const uint8_t *data, size_t len, bool is_final)
{
	struct dial *dial = server->dial;
	struct buf out;
	struct err err;
	enum scram_result result;

	if (!dial->has_scram || dial->job) {
		err_set(&err, "unexpected SASL message");
		return dial_proof_failed(server, &err);
	}
	dial_find_cache(server);
	buf_init(&out, 0);
	result = scram_client_step(&dial->scram, data, len, &out, &err);
	if (result == SCRAM_DERIVE && !is_final)
		return dial_derive(server);
	if (result == SCRAM_FAIL || (result == SCRAM_DONE) != is_final) {
		if (result != SCRAM_FAIL)
			err_set(&err, "SASL messages out of order");
		buf_wipe_done(&out);
		return dial_proof_failed(server, &err);
	}
	dial_send_sasl(server, &out);
	dial->is_authenticated = result == SCRAM_DONE;
	if (dial->is_authenticated && dial->has_salted) {
		struct scram_due due = scram_client_due(&dial->scram);
		salted_keep(server->conn.site, &due, dial->salted);
	}
	return STEP_NEXT;
}

enum step dial_auth(struct server *server, const struct message *m)
{
	const struct secret *secret = dial_identity(server).secret;
	const uint8_t *data;
	size_t len;
	uint32_t request;

	if (codec_read_auth(
		message_body(m), message_body_len(m), &request, &data, &len) < 0) {
		dial_fail_network(server, "failed to answer authreq");
		return STEP_CLOSE;
	}
	if (request == AUTH_REQ_CLEARTEXT || request == AUTH_REQ_MD5) {
		if (server->dial->has_answered) {
			conn_log(&server->conn, LEVEL_ERROR | KIND_SERVERS,
			    "server asks for the password again");
			dial_fail_network(server, "failed to answer authreq");
			return STEP_CLOSE;
		}
		server->dial->has_answered = true;
	}
	switch (request) {
	case AUTH_REQ_OK:
		server->dial->is_let_in = true;
		if (server->dial->has_scram && !server->dial->is_authenticated) {
			/* a server that leaves out its own proof may be an impostor */
			struct err err;
			err_set(&err, "failed to verify server signature");
			return dial_proof_failed(server, &err);
		}
		if (server->dial->ticket && !server->dial->is_authenticated) {
			struct err err;
			err_set(&err, "the server has not proven by GSSAPI who it is");
			return dial_proof_failed(server, &err);
		}
		return dial_check_binding(server) < 0 ? STEP_CLOSE : STEP_NEXT;
	case AUTH_REQ_CLEARTEXT:
		if (dial_check_binding(server) < 0)
			return STEP_CLOSE;
		return dial_answer_plain(server, secret);
	case AUTH_REQ_MD5:
		if (dial_check_binding(server) < 0)
			return STEP_CLOSE;
		return dial_answer_md5(server, secret, data, len);
	case AUTH_REQ_GSS:
		return dial_kerberos_begin(server);
	case AUTH_REQ_GSS_CONTINUE:
		return dial_kerberos_continue(server, data, len);
	case AUTH_REQ_SASL:
		if (server->dial->has_scram || server->dial->has_sent_token ||
		    server->dial->ticket)
			break;
		if (!codec_sasl_offers_mechanism(data, len, OAUTH_MECHANISM) ||
		    codec_sasl_offers_mechanism(data, len, SCRAM_MECHANISM))
			return dial_begin_sasl(server, data, len);
		return dial_check_binding(server) < 0 ? STEP_CLOSE
						      : dial_answer_oauth(server);
	case AUTH_REQ_SASL_CONTINUE:
		if (server->dial->has_sent_token && !server->dial->has_answered) {
			/* the token is not accepted; the server's error follows */
			struct buf end;
			server->dial->has_answered = true;
			buf_init(&end, 0);
			oauth_message_put_end(&end);
			dial_send_sasl(server, &end);
			return STEP_NEXT;
		}
		return dial_continue_sasl(server, data, len, false);
	case AUTH_REQ_SASL_FINAL:
		return dial_continue_sasl(server, data, len, true);
	}
	conn_log(&server->conn, LEVEL_ERROR | KIND_SERVERS,
	    "unknown/unsupported auth method: %u", request);
	dial_fail_network(server, "failed to answer authreq");
	return STEP_CLOSE;
}
