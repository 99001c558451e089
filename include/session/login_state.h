/*
 * What is known of a client until its login is complete.  Private to the rooms that
 * have a part in a login: login, proof.
 */
#ifndef SESSION_LOGIN_STATE_H
#define SESSION_LOGIN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/scram.h"
#include "auth/secret.h"
#include "session/client.h"
#include "session/startup.h"

enum login_phase {
	LOGIN_PASSWORD,
	LOGIN_SASL_INITIAL,
	LOGIN_SASL_FINAL,
	LOGIN_WELCOME,
};

struct login {
	struct startup startup;
	enum auth_type method;
	enum login_phase phase;
	bool is_mock;          /* no such user: go through the motions, then fail */
	bool is_fake_db;       /* no such database: said only after authentication */
	struct secret nothing; /* SECRET_NONE, for users that do not exist */
	uint8_t salt[4];
	struct scram_server scram;
	bool has_scram;
	struct scram_verifier verifier; /* its own: a reload may change the user's */
};

/* What the client has to prove that it knows. */
static inline const struct secret *login_secret(const struct client *client)
{
	return client->login->is_mock ? &client->login->nothing : &client->user->secret;
}

#endif
