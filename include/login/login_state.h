/*
 * What is known of a client until its login is complete.  Private to the login floor.
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
	LOGIN_AWAIT, /* the login waits for an answer that is not the client's */
	LOGIN_WELCOME,
};

struct login {
	struct client *client; /* borrowed */
	struct startup startup;
	enum auth_type method;
	enum login_phase phase, before; /* before: the one that LOGIN_AWAIT stopped */
	struct rules *rules;            /* one reference: the rules in force when the
					 * login began */
	const struct hba_rule *rule;    /* borrowed from rules; NULL: the method is
					 * auth_type's */
	struct dns_reverse *name_query; /* the name of the client's host is being looked
					 * up */
	struct deadline name_due;
	struct workers_job *job; /* the workers own it: cancelled when the login ends */
	char *password;          /* owned: proven by LDAP or PAM */
	struct verifier_wait *verifier_wait; /* see verifiers.c; NULL: it waits for no
					      * keys */
	struct node verifier_node;
	/* Where the login goes on when the answer has come that it had to wait for. */
	method_known_fn *method_known;
	void (*proven)(struct client *client, enum proof proof);
	void (*derived)(struct client *client);
	bool is_named;         /* startup is whole: the log names its user */
	bool is_mock;          /* there is no such user: the exchange takes place all
				* the same, and fails */
	bool is_fake_db;       /* there is no such database, which is told only after
				* the proof */
	struct secret nothing; /* SECRET_NONE, for users that do not exist */
	uint8_t salt[4];
	struct scram_server scram;
	struct scram_binding binding;
	uint8_t end_point[TLS_HASH_MAX]; /* what binding points to */
	bool has_scram;
	char *sasl_password; /* owned: the password that keys are made from; a reload
			      * may change the user's */
	bool lacks_keys;     /* verifier has salt and rounds only */
	bool has_waited;     /* ... and the login has waited for its keys */
	bool was_derived;    /* a message was put back until its password had been
			      * derived; it ... */
	bool is_right;       /* ... is right or not */
	struct scram_verifier verifier; /* a copy: a reload may change the user's */

	/* auth_query: see authquery.h */
	struct lookup *lookup; /* the lookup it waits for; NULL: none */
	struct node lookup_node;
	void (*on_found)(struct client *client);
	uint64_t waits_since_us;
	struct secret found; /* the secret that the client has to prove; with has_found
			      */
	struct user *found_user;
	uint64_t found_us; /* when the query was sent */
	bool has_found;
	bool may_be_outdated; /* the secret was kept from an earlier query */
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

/* The secret that the client has to prove; SECRET_NONE where LDAP, PAM or the operating
 * system decides. */
static inline const struct secret *login_secret(const struct client *client)
{
	const struct login *login = client->login;
	if (login->is_mock || !client->user)
		return &login->nothing;
	return login->has_found ? &login->found : &client->user->secret;
}

#endif
