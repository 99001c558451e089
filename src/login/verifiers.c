#include "login/verifiers.h"

#include <string.h>

#include "login/login_state.h"
#include "session/salted.h"

/* One key_job, and the logins that wait for it. */
struct verifier_wait {
	struct list logins; /* struct login by .verifier_node */
	/* borrowed */
	struct site *site;
	struct user *user;
};

const struct scram_verifier *verifiers_of_user(
    const struct site *site, struct user *user, uint32_t rounds)
{
	struct scram_verifier *v = user->adhoc;

	if (v && v->iterations == rounds)
		return v;
	if (v)
		scram_verifier_done(v);
	else
		v = user->adhoc = mem_zero(sizeof(*v));
	user->has_adhoc_keys = false;
	v->iterations = rounds;
	v->salt = mem_alloc(SCRAM_SALT_LEN);
	v->salt_len = SCRAM_SALT_LEN;
	scram_steady_salt(user->name, user->secret.text, site->mock_secret, v->salt);
	return v;
}

static bool is_of_salt(const struct scram_verifier *v, const struct scram_due *due)
{
	return v && v->iterations == due->iterations && v->salt_len == due->salt_len &&
	       memcmp(v->salt, due->salt, v->salt_len) == 0;
}

static void take_keys(struct scram_verifier *v, const struct scram_verifier *from)
{
	memcpy(v->stored_key, from->stored_key, SCRAM_KEY_LEN);
	memcpy(v->server_key, from->server_key, SCRAM_KEY_LEN);
}

static void verifier_derived(struct key_job *key_job)
{
	struct verifier_wait *wait = key_job->owner;
	struct user *user = wait->user;
	struct scram_verifier found = {0};
	struct node *node;

	scram_verifier_from_salted(&found, &key_job->due, key_job->salted);
	/* the user's password or the number of rounds may have changed during the
	 * derivation */
	if (!key_job->has_failed && is_of_salt(user->adhoc, &key_job->due)) {
		take_keys(user->adhoc, &found);
		user->has_adhoc_keys = true;
	}
	while ((node = list_first(&wait->logins))) {
		struct login *login = container_of(node, struct login, verifier_node);
		list_remove(&wait->logins, node);
		login->verifier_wait = NULL;
		if (key_job->has_failed) {
			client_fatal(login->client, ERROR_OUT_OF_MEMORY);
		} else if (is_of_salt(&login->verifier, &key_job->due)) {
			take_keys(&login->verifier, &found);
			login->lacks_keys = false;
		}
		login->derived(login->client);
	}
	scram_verifier_done(&found);
	map_del(wait->site->verifier_waits, &wait->user, sizeof(wait->user));
	mem_free(wait);
}

bool verifiers_is_shared(const struct client *client)
{
	const struct scram_verifier *own = &client->login->verifier;
	struct scram_due due = {NULL, own->salt, own->salt_len, own->iterations};

	return is_of_salt(client->user->adhoc, &due);
}

int verifiers_derive_keys(struct client *client, struct err *err)
{
	struct site *site = client->conn.site;
	struct login *login = client->login;
	struct user *user = client->user;
	struct verifier_wait *wait = map_get(site->verifier_waits, &user, sizeof(user));
	struct scram_due due = {login->sasl_password, login->verifier.salt,
	    login->verifier.salt_len, login->verifier.iterations};

	if (!wait) {
		wait = mem_zero(sizeof(*wait));
		list_init(&wait->logins);
		wait->site = site;
		wait->user = user;
		if (!salted_submit(
			site, &due, login_lane(client), verifier_derived, wait, err)) {
			mem_free(wait);
			return -1;
		}
		map_put(site->verifier_waits, &wait->user, sizeof(wait->user), wait);
	}
	login->verifier_wait = wait;
	list_push_back(&wait->logins, &login->verifier_node);
	return 0;
}

void verifiers_leave(struct client *client)
{
	struct login *login = client->login;

	if (login->verifier_wait)
		list_remove(&login->verifier_wait->logins, &login->verifier_node);
	login->verifier_wait = NULL;
}

void verifiers_forget_all(struct site *site)
{
	struct verifier_wait *wait;
	size_t at = 0;

	while ((wait = map_next(site->verifier_waits, &at)))
		mem_free(wait);
	map_free(&site->verifier_waits);
}
