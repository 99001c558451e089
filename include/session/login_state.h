/*
 * What is known of a client until its login is complete.  Private to the rooms that
 * have a part in a login: login, proof, authquery.
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
	LOGIN_LOOKUP, /* auth_query is asked */
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

	/* auth_query: see authquery.h */
	struct lookup *lookup; /* it waits for this; NULL: for none */
	struct node lookup_node;
	struct client *client; /* whose login this is; once it has waited */
	void (*on_found)(struct client *client);
	uint64_t waits_since_us;
	struct secret found; /* what it is to prove; if has_found */
	struct user *found_user;
	uint64_t found_us; /* when the query was sent */
	bool has_found;
	bool may_be_outdated; /* found was asked for before the client came */
};

/* What the client has to prove that it knows. */
static inline const struct secret *login_secret(const struct client *client)
{
	const struct login *login = client->login;
	if (login->is_mock)
		return &login->nothing;
	return login->has_found ? &login->found : &client->user->secret;
}

#endif
