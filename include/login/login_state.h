/*
 * What is known of a client until its login is complete.  Private to the rooms that
 * have a part in a login: login, its clocks, method, proof, outside, derive, authquery.
 */
#ifndef LOGIN_LOGIN_STATE_H
#define LOGIN_LOGIN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/scram.h"
#include "auth/secret.h"
#include "login/method.h"
#include "login/proof.h"
#include "login/startup.h"
#include "net/tls.h"
#include "session/client.h"

enum login_phase {
	LOGIN_LOOKUP, /* auth_query is asked */
	LOGIN_PASSWORD,
	LOGIN_SASL_INITIAL,
	LOGIN_SASL_FINAL,
	LOGIN_AWAIT, /* for somebody else's answer, not for the client */
	LOGIN_WELCOME,
};

struct login {
	struct client *client; /* borrowed */
	struct startup startup;
	enum auth_type method;
	enum login_phase phase, before; /* before: the one that LOGIN_AWAIT stopped */
	struct rules *rules;            /* one reference: those in force at its begin */
	const struct hba_rule *rule; /* borrowed from rules; NULL: auth_type says it */
	struct dns_reverse *name_query; /* the name of its host is being found out */
	struct deadline name_due;
	struct workers_job *job; /* the workers own it: cancelled when the login ends */
	char *password;          /* owned: proven by LDAP or PAM */
	struct verifier_wait *verifier_wait; /* see derive.c; NULL: waits for none */
	struct node verifier_node;
	/* Where the login goes on when an answer came that it had to wait for. */
	method_known_fn *method_known;
	void (*proven)(struct client *client, enum proof proof);
	void (*derived)(struct client *client);
	bool is_named;         /* startup is whole: the log names its user */
	bool is_mock;          /* no such user: go through the motions, then fail */
	bool is_fake_db;       /* no such database: said only after authentication */
	struct secret nothing; /* SECRET_NONE, for users that do not exist */
	uint8_t salt[4];
	struct scram_server scram;
	struct scram_binding binding;
	uint8_t end_point[TLS_HASH_MAX]; /* what binding points to */
	bool has_scram;
	char *sasl_password; /* owned: keys are made from it; a reload may change the
				user's */
	bool lacks_keys;     /* verifier has salt and rounds only */
	bool has_waited;     /* ... and it waited for its keys */
	bool was_derived;    /* a message was looked at and put back; it ... */
	bool is_right;       /* ... proves something or not */
	struct scram_verifier verifier; /* its own: a reload may change the user's */

	/* auth_query: see authquery.h */
	struct lookup *lookup; /* it waits for this; NULL: for none */
	struct node lookup_node;
	void (*on_found)(struct client *client);
	uint64_t waits_since_us;
	struct secret found; /* what it is to prove; if has_found */
	struct user *found_user;
	uint64_t found_us; /* when the query was sent */
	bool has_found;
	bool may_be_outdated; /* found was asked for before the client came */
};

/* The client waits for an answer that is not its own.  Whatever it sends is kept. */
static inline void login_await(struct login *login)
{
	login->before = login->phase;
	login->phase = LOGIN_AWAIT;
}
static inline void login_await_end(struct login *login)
{
	login->phase = login->before;
}

/* What the client has to prove that it knows: nothing that we have, where somebody else
 * is to judge. */
static inline const struct secret *login_secret(const struct client *client)
{
	const struct login *login = client->login;
	if (login->is_mock || !client->user)
		return &login->nothing;
	return login->has_found ? &login->found : &client->user->secret;
}

#endif
