/*
 * The exchange in which a client proves who it is: cleartext, md5, SCRAM.  Which method
 * it is to be, and what follows from the outcome, is login's business.
 */
#include "session/proof.h"

#include <string.h>

#include "auth/scram.h"
#include "auth/secret.h"
#include "session/login_state.h"
#include "wire/codec.h"

static enum error_id proof_failure(const struct login *login)
{
	switch (login->method) {
	case AUTH_TRUST:
		return ERROR_TRUST_FAILED;
	case AUTH_SCRAM:
		return ERROR_SASL_FAILED;
	case AUTH_PLAIN:
	case AUTH_MD5:
		return ERROR_PASSWORD_FAILED;
	default:
		return ERROR_METHOD_UNAVAILABLE;
	}
}

void proof_fail(struct client *client)
{
	client_fatal(client, proof_failure(client->login));
}

static void proof_send_auth(
    struct client *client, uint32_t request, const void *data, size_t len)
{
	struct buf buf;
	buf_init(&buf, 0);
	codec_put_auth(&buf, request, data, len);
	conn_send(&client->conn, &buf);
	buf_done(&buf);
}

/* The verifier made from the plain password, kept until the rounds change. */
static const struct scram_verifier *proof_adhoc_verifier(
    struct user *user, uint32_t rounds)
{
	if (user->adhoc && user->adhoc->iterations != rounds) {
		scram_verifier_done(user->adhoc);
		mem_free(user->adhoc);
		user->adhoc = NULL;
	}
	if (!user->adhoc) {
		user->adhoc = mem_zero(sizeof(*user->adhoc));
		scram_verifier_from_password(user->adhoc, user->secret.text, rounds);
	}
	return user->adhoc;
}

static void proof_take_verifier(struct login *login, const struct scram_verifier *from)
{
	login->verifier = *from;
	login->verifier.salt = mem_dup(from->salt, from->salt_len);
}

/* What to prove against: stored, made from the plain password, or something that nobody
 * can satisfy. */
static void proof_choose_verifier(struct client *client)
{
	struct login *login = client->login;
	uint32_t rounds = (uint32_t)site_settings(client->conn.site)->scram_iterations;
	const struct secret *secret = login_secret(client);

	if (secret->kind == SECRET_SCRAM) {
		proof_take_verifier(login, &secret->scram);
		return;
	}
	if (secret->kind == SECRET_PLAIN && login->has_found) {
		scram_verifier_from_password(&login->verifier, secret->text, rounds);
		return;
	}
	if (secret->kind == SECRET_PLAIN) {
		proof_take_verifier(login, proof_adhoc_verifier(client->user, rounds));
		return;
	}
	if (secret->kind == SECRET_MD5)
		conn_log(&client->conn, LEVEL_ERROR,
		    "SCRAM authentication failed: user has MD5 secret");
	login->is_mock = true;
	scram_verifier_mock(&login->verifier, login->startup.user,
	    client->conn.site->mock_secret, rounds);
}

static enum proof proof_begin_sasl(struct client *client)
{
	static const char *const mechanisms[] = {"SCRAM-SHA-256", NULL};
	struct login *login = client->login;
	struct buf buf;

	proof_choose_verifier(client);
	login->method = AUTH_SCRAM;
	login->phase = LOGIN_SASL_INITIAL;
	scram_server_init(&login->scram, &login->verifier, login->is_mock, NULL);
	login->has_scram = true;
	buf_init(&buf, 0);
	codec_put_auth_sasl(&buf, mechanisms);
	conn_send(&client->conn, &buf);
	buf_done(&buf);
	return PROOF_MORE;
}

enum proof proof_begin(struct client *client)
{
	struct login *login = client->login;

	switch (login->method) {
	case AUTH_ANY:
		return PROOF_DONE;
	case AUTH_TRUST:
		return login->is_mock ? PROOF_FAILED : PROOF_DONE;
	case AUTH_PLAIN:
		login->phase = LOGIN_PASSWORD;
		proof_send_auth(client, AUTH_REQ_CLEARTEXT, NULL, 0);
		return PROOF_MORE;
	case AUTH_MD5:
		if (login_secret(client)->kind == SECRET_SCRAM)
			return proof_begin_sasl(client);
		login->phase = LOGIN_PASSWORD;
		mem_random(login->salt, sizeof(login->salt));
		proof_send_auth(client, AUTH_REQ_MD5, login->salt, sizeof(login->salt));
		return PROOF_MORE;
	case AUTH_SCRAM:
		return proof_begin_sasl(client);
	default:
		return PROOF_FAILED;
	}
}

static enum proof proof_password(struct client *client, const struct message *m)
{
	struct login *login = client->login;
	const struct secret *secret = login_secret(client);
	const char *password;
	bool is_right;

	if (codec_read_password(message_body(m), message_body_len(m), &password) < 0)
		return PROOF_MORE; /* the login timeout ends it */
	if (*password == '\0') {
		client_fatal(client, ERROR_EMPTY_PASSWORD);
		return PROOF_REFUSED;
	}
	if (login->method == AUTH_PLAIN)
		is_right = secret_is_password(secret, login->startup.user, password);
	else
		is_right = secret_is_md5_answer(
		    secret, login->startup.user, login->salt, password);
	if (!is_right || login->is_mock)
		return PROOF_FAILED;
	return PROOF_DONE;
}

static enum proof proof_sasl(struct client *client, const struct message *m)
{
	struct login *login = client->login;
	const uint8_t *data = message_body(m);
	size_t len = message_body_len(m);
	const char *mechanism;
	struct err err = {{0}, {0}};
	struct buf out;

	if (login->phase == LOGIN_SASL_INITIAL) {
		if (codec_read_sasl_initial(data, len, &mechanism, &data, &len) < 0)
			return PROOF_MORE; /* the login timeout ends it */
		if (strcmp(mechanism, "SCRAM-SHA-256") != 0) {
			client_fatal(client, ERROR_BAD_MECHANISM);
			return PROOF_REFUSED;
		}
	}
	buf_init(&out, 0);
	switch (scram_server_step(&login->scram, data, len, &out, &err)) {
	case SCRAM_MORE:
		login->phase = LOGIN_SASL_FINAL;
		proof_send_auth(client, AUTH_REQ_SASL_CONTINUE, out.bytes, out.len);
		buf_wipe_done(&out);
		return PROOF_MORE;
	case SCRAM_DONE:
		proof_send_auth(client, AUTH_REQ_SASL_FINAL, out.bytes, out.len);
		buf_wipe_done(&out);
		return PROOF_DONE;
	case SCRAM_DERIVE:
	case SCRAM_FAIL:
		break;
	}
	buf_wipe_done(&out);
	conn_log(&client->conn, LEVEL_ERROR, "%s", err.text);
	return PROOF_FAILED;
}

enum proof proof_message(struct client *client, const struct message *m)
{
	if (client->login->phase == LOGIN_PASSWORD)
		return proof_password(client, m);
	return proof_sasl(client, m);
}

void proof_done(struct client *client)
{
	struct login *login = client->login;
	if (login->has_scram)
		scram_server_done(&login->scram);
	scram_verifier_done(&login->verifier);
	secret_done(&login->nothing);
	if (login->has_found)
		secret_done(&login->found);
}
