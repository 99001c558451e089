/*
 * The state of a client until its login is complete.  Private to the login floor.
 */
#ifndef LOGIN_LOGIN_STATE_H
#define LOGIN_LOGIN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/kerberos.h"
#include "auth/scram.h"
#include "auth/secret.h"
#include "login/method.h"
#include "login/proof.h"
#include "login/startup.h"
#include "net/tls.h"
#include "session/client.h"
#include "session/oauth_issuers.h"
#include "session/salted.h"

enum login_phase {
	LOGIN_LOOKUP, /* auth_query waits or runs */
	LOGIN_PASSWORD,
	LOGIN_SASL_INITIAL,
	LOGIN_SASL_FINAL,
	LOGIN_GSS,
	LOGIN_AWAIT, /* a helper thread or the resolver works for the login */
	LOGIN_PARAMS,
};

struct login {
	struct client *client; /* borrowed */
	struct startup startup;
	struct node console_node; /* in site->console_logins */
	enum auth_type method;
	/* before: the phase to return to after LOGIN_AWAIT */
	enum login_phase phase, before;
	struct access_rules *rules;  /* one reference: the rules in force when the
				      * login began */
	const struct hba_rule *rule; /* borrowed from rules; NULL: auth_type decides */
	struct dns_reverse *name_query; /* the running look-up of the name of the
					   client's host; NULL: none */
	struct deadline name_due;
	/* owned by the helper threads; cancelled when the login ends */
	struct helpers_job *job;
	char *password; /* owned: the password that LDAP or PAM accepted */
	/* owned: the token, while it waits for the keys of its issuer */
	char *token;
	struct oauth_keys_wait keys_wait;
	/* the client has selected OAUTHBEARER; it has asked where to get a token */
	bool is_selected, is_question;
	/* owned: the exchange by GSSAPI, except while a job has it; NULL: none */
	struct kerberos_exchange *kerberos;
	/* the derivation it waits for (verifiers.c); NULL: none */
	struct verifier_wait *verifier_wait;
	struct node verifier_node;
	/* Continue the login when the answer that it waits for has come. */
	method_known_fn *method_known;
	void (*proven)(struct client *client, enum proof proof);
	void (*derived)(struct client *client);
	bool is_named;   /* startup has been read: the log names its user */
	bool is_mock;    /* there is no such user: the exchange takes place all the same
			    and fails, so that nobody learns it */
	bool is_fake_db; /* there is no such database; the client learns it only after
			    the proof */
	/* held, or NULL: its auth_query looks up the user in place of that of a
	 * database that does not exist, so that the question does not tell which do */
	struct database *stand_in;
	uint8_t salt[4];
	struct scram_server scram;
	struct scram_binding binding;
	uint8_t end_point[TLS_HASH_MAX]; /* the bytes that binding points to */
	bool has_scram;
	char *sasl_password; /* owned: a copy of the password that the keys are derived
				from, because a reload may change the user's */
	bool lacks_keys;     /* the verifier has only salt and rounds, no keys */
	bool has_waited;     /* the login has waited for the keys of the verifier, or of
				the token's issuer */
	bool was_derived; /* keys have been derived for the message that was put back */
	bool is_right;    /* with was_derived: the password in that message is right */
	/* a copy, because a reload may change the user's */
	struct scram_verifier verifier;

	/* auth_query: see authquery.h */
	struct lookup *lookup; /* the lookup it waits for; NULL: none */
	struct node lookup_node;
	void (*on_found)(struct client *client);
	uint64_t waits_since_us;
	/* the query for its startup values (spelling.h); NULL: none */
	struct spelling *spelling;
	/* the secret that the client has to prove; valid with has_found */
	struct secret found;
	struct user *found_user;
	uint64_t found_us; /* when the query for it was sent (loop clock) */
	bool has_found;
	bool may_be_outdated; /* the secret may be older than a change of it: it is from
				 the cache, or from a query that ran already when this
				 login joined */
};

/* The login begins to wait for a helper thread or the resolver.  What the client sends
 * meanwhile is kept unread. */
static inline void login_await(struct login *login)
{
	login->before = login->phase;
	login->phase = LOGIN_AWAIT;
}
static inline void login_await_end(struct login *login)
{
	login->phase = login->before;
}

/* The lane in which its derivations wait. */
static inline uint32_t login_lane(const struct client *client)
{
	return salted_lane_of_user(client->conn.site, client->login->startup.user);
}

/* The database whose auth_query looks the user up; NULL: none does. */
static inline struct database *login_asked_database(const struct client *client)
{
	return client->database ? client->database : client->login->stand_in;
}

/* Does it wait for the pooler, a server or a helper thread, and not for its client? */
static inline bool login_is_waiting(const struct login *login)
{
	switch (login->phase) {
	case LOGIN_PASSWORD:
	case LOGIN_SASL_INITIAL:
	case LOGIN_SASL_FINAL:
	case LOGIN_GSS:
		return false;
	case LOGIN_LOOKUP:
	case LOGIN_AWAIT:
	case LOGIN_PARAMS:
		break;
	}
	return true;
}

/* It begins to wait for a server or for the pool's login parameters. */
static inline void login_begin_wait(struct login *login, uint64_t now_us)
{
	login->phase = LOGIN_PARAMS;
	login->waits_since_us = now_us;
}

/* The secret that the client has to prove; SECRET_NONE where LDAP, PAM or the operating
 * system decides. */
static inline const struct secret *login_secret(const struct client *client)
{
	const struct login *login = client->login;
	if (login->is_mock || !client->user)
		return client->conn.site->no_secret;
	return login->has_found ? &login->found : &client->user->secret;
}

#endif
