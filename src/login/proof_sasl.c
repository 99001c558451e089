/*
 * SCRAM with a client: chooses the verifier, runs the exchange and limits its cost.
 * auth/scram computes the steps.
 *
 * A login that fails has always waited for one key_job, whether the user exists or not
 * and whatever its secret is, so that the time of the answer tells nothing.  A login
 * that succeeds waits only for keys that have not been derived yet.
 */
#include "login/proof_sasl.h"

#include <assert.h>
#include <string.h>

#include "auth/scram.h"
#include "auth/secret.h"
#include "login/authquery.h"
#include "login/login_state.h"
#include "login/verifiers.h"
#include "session/salted.h"
#include "wire/codec.h"

void proof_send_auth(
    struct client *client, uint32_t request, const void *data, size_t len)
{
	struct buf buf;
	buf_init(&buf, 0);
	codec_put_auth(&buf, request, data, len);
	conn_send(&client->conn, &buf);
	buf_done(&buf);
}

/* ---- failing ---- */

static void failure_derived(struct key_job *key_job)
{
	struct client *client = key_job->owner;
	struct login *login = client->login;

	login->job = NULL;
	login->was_derived = true;
	login->is_right = false;
	login->derived(client);
}

/* The rounds that a user who does not exist is asked for: those that most of the users
 * have whom auth_query has found, or those of some user in the list. */
static uint32_t sasl_usual_rounds(const struct client *client)
{
	const struct site *site = client->conn.site;
	const struct catalog *catalog = site->catalog;
	uint8_t digest[SCRAM_SALT_LEN];
	uint32_t rounds = (uint32_t)site_settings(site)->scram_iterations;
	uint32_t count = 0, found, pick;

	found = rounds_usual(&catalog->found_rounds, &count);
	if (count && authquery_is_for(client))
		return found;
	if (!catalog->list)
		return rounds;
	scram_steady_salt(
	    client->login->startup.user, "rounds", site->mock_secret, digest);
	memcpy(&pick, digest, sizeof(pick));
	return userlist_rounds_like(catalog->list, rounds, pick);
}

enum proof proof_fail_slowly(struct client *client)
{
	static const uint8_t salt[SCRAM_SALT_LEN] = {0};
	struct site *site = client->conn.site;
	struct login *login = client->login;
	/* a salt of zeros, for which no keys are ever cached */
	struct scram_due due = {
	    login->startup.user, salt, sizeof(salt), sasl_usual_rounds(client)};
	uint8_t salted[SCRAM_KEY_LEN];
	struct err err;

	if (salted_is_busy(site) ||
	    salted_derive(site, &due, login_lane(client), failure_derived, client,
		salted, &login->job, &err) != 0)
		return PROOF_FAILED;
	login_await(login);
	return PROOF_LATER;
}

/* ---- the verifier ---- */

static void sasl_take_verifier(struct login *login, const struct scram_verifier *from)
{
	login->verifier = *from;
	login->verifier.salt = mem_dup(from->salt, from->salt_len);
}

/* The verifier of a plain password: its keys are derived when they are needed. */
static void sasl_make_verifier(
    struct client *client, const struct secret *secret, uint32_t rounds)
{
	struct login *login = client->login;
	struct scram_verifier *v = &login->verifier;

	login->lacks_keys = true;
	login->sasl_password = mem_strdup(secret->text);
	if (secret == &client->user->secret) {
		sasl_take_verifier(
		    login, verifiers_of_user(client->conn.site, client->user, rounds));
		login->lacks_keys = !client->user->has_adhoc_keys;
		return;
	}
	v->iterations = rounds;
	v->salt_len = SCRAM_SALT_LEN;
	v->salt = mem_alloc(v->salt_len);
	scram_steady_salt(
	    client->user->name, secret->text, client->conn.site->mock_secret, v->salt);
}

/* The verifier is the stored one, one made from the plain password, or one that no
 * proof satisfies. */
static void sasl_choose_verifier(struct client *client)
{
	struct login *login = client->login;
	uint32_t rounds = (uint32_t)site_settings(client->conn.site)->scram_iterations;
	const struct secret *secret = login_secret(client);

	if (secret->kind == SECRET_SCRAM) {
		sasl_take_verifier(login, &secret->scram);
		return;
	}
	if (secret->kind == SECRET_PLAIN) {
		sasl_make_verifier(client, secret, rounds);
		return;
	}
	if (secret->kind == SECRET_MD5)
		conn_log(&client->conn, LEVEL_ERROR | KIND_AUTH,
		    "SCRAM authentication failed: user has MD5 secret");
	login->is_mock = true;
	scram_verifier_mock(&login->verifier, login->startup.user,
	    client->conn.site->mock_secret, sasl_usual_rounds(client));
}

static void sasl_derived(struct key_job *key_job)
{
	struct client *client = key_job->owner;
	struct login *login = client->login;

	login->job = NULL;
	if (key_job->has_failed) {
		client_fatal(client, ERROR_OUT_OF_MEMORY);
	} else {
		scram_verifier_done(&login->verifier);
		scram_verifier_from_salted(
		    &login->verifier, &key_job->due, key_job->salted);
		login->lacks_keys = false;
	}
	login->derived(client);
}

/* The exchange cannot go on without the keys. */
static enum proof sasl_want_keys(struct client *client)
{
	struct login *login = client->login;
	struct scram_due due = {login->sasl_password, login->verifier.salt,
	    login->verifier.salt_len, login->verifier.iterations};
	uint8_t salted[SCRAM_KEY_LEN];
	struct err err;
	int result;

	if (verifiers_is_shared(client))
		result = verifiers_derive_keys(client, &err);
	else
		result = salted_derive(client->conn.site, &due, login_lane(client),
		    sasl_derived, client, salted, &login->job, &err);
	/* the salt is this login's alone, so its keys cannot be cached */
	assert(result <= 0);
	if (result < 0) {
		client_fatal_text(client, err.sqlstate, err.text);
		return PROOF_REFUSED;
	}
	login_await(login);
	return PROOF_LATER;
}

/* ---- channel binding ---- */

bool proof_requires_binding(const struct client *client)
{
	return method_requires_binding(
	    &client->conn.remote, site_settings(client->conn.site));
}

/* NULL: none is wanted. */
static const struct scram_binding *sasl_binding(struct client *client)
{
	const struct tls *tls = stream_tls(&client->conn.stream);
	struct login *login = client->login;
	struct scram_binding *binding = &login->binding;

	if (client->conn.remote.family == AF_UNIX ||
	    site_settings(client->conn.site)->client_channel_binding ==
		CHANNEL_BINDING_DISABLE)
		return NULL;
	if (tls && tls_end_point_hash(tls, true, login->end_point, &binding->len) == 0)
		binding->hash = login->end_point;
	binding->is_required = proof_requires_binding(client);
	return binding;
}

/* ---- the exchange ---- */

enum proof proof_sasl_begin(struct client *client)
{
	const char *mechanisms[3];
	struct login *login = client->login;
	struct buf buf;

	sasl_choose_verifier(client);
	login->method = AUTH_SCRAM;
	login->phase = LOGIN_SASL_INITIAL;
	scram_server_init(
	    &login->scram, &login->verifier, login->is_mock, sasl_binding(client));
	login->scram.mem = &client->conn.site->mem;
	login->scram.sha256 = client->conn.site->sha256;
	login->has_scram = true;
	scram_server_offer(&login->scram, mechanisms);
	if (!mechanisms[0]) {
		client_fatal(client, ERROR_BINDING_REQUIRED);
		return PROOF_REFUSED;
	}
	buf_init(&buf, 0);
	codec_put_auth_sasl(&buf, mechanisms);
	conn_send(&client->conn, &buf);
	buf_done(&buf);
	return PROOF_MORE;
}

static enum proof sasl_step(struct client *client, const uint8_t *data, size_t len)
{
	struct login *login = client->login;
	bool is_final = login->phase == LOGIN_SASL_FINAL;
	struct err err = {{0}, {0}};
	struct buf out;

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
	case SCRAM_DERIVE: /* a state of the client's side */
	case SCRAM_FAIL:
		break;
	}
	buf_wipe_done(&out);
	conn_log(&client->conn, LEVEL_ERROR | KIND_AUTH, "%s", err.text);
	return is_final && !login->has_waited ? proof_fail_slowly(client)
					      : PROOF_FAILED;
}

enum proof proof_sasl_message(struct client *client, const struct message *m)
{
	struct login *login = client->login;
	const uint8_t *data = message_body(m);
	size_t len = message_body_len(m);
	const char *mechanism;
	enum proof proof;

	if (login->phase == LOGIN_SASL_INITIAL) {
		if (codec_read_sasl_initial(data, len, &mechanism, &data, &len) < 0)
			return PROOF_MORE; /* the login timeout ends it */
		if (scram_server_select(&login->scram, mechanism) < 0) {
			client_fatal(client, ERROR_BAD_MECHANISM);
			return PROOF_REFUSED;
		}
	} else if (login->was_derived) {
		return PROOF_FAILED; /* it has waited for a derivation
					(proof_fail_slowly) */
	} else if (login->lacks_keys) {
		proof = sasl_want_keys(client);
		login->has_waited = proof == PROOF_LATER;
		return proof;
	}
	return sasl_step(client, data, len);
}
