/*
 * Has keys derived on the helper thread, and keeps what may be kept: salted passwords
 * that proved right, verifiers of users with plain passwords.  What is proven with them
 * is not known here.
 */
#include "session/derive.h"

#include <string.h>

#include "auth/derived.h"
#include "session/login_state.h"

/* Derivations in a queue that is too long for more of them without need. */
enum { BUSY_COUNT = 64 };

void derive_init(struct site *site)
{
	site->derived = derived_new(DERIVED_ENTRIES);
	site->verifier_waits = map_new();
}

void derive_forget_all(struct site *site)
{
	derived_clear(site->derived);
}

bool derive_is_busy(const struct site *site)
{
	return external_waiting(site->external, EXTERNAL_COMPUTE) > BUSY_COUNT;
}

/* NULL and err: nobody takes it. */
static struct external_job *submit(struct site *site, const struct scram_due *due,
    derive_fn *done, void *owner, struct err *err)
{
	struct derivation *derivation = derivation_new(due, done, owner);

	if (!derivation) {
		err_set(err, "out of memory");
		return NULL;
	}
	if (external_submit(site->external, &derivation->job, err) == 0)
		return &derivation->job;
	derivation_discard(derivation);
	return NULL;
}

int derive_salted(struct site *site, const struct scram_due *due, derive_fn *done,
    void *owner, uint8_t salted[SCRAM_KEY_LEN], struct external_job **job,
    struct err *err)
{
	if (derived_find(site->derived, due, salted) == 0)
		return 1;
	*job = submit(site, due, done, owner, err);
	return *job ? 0 : -1;
}

void derive_keep(
    struct site *site, const struct scram_due *due, const uint8_t salted[SCRAM_KEY_LEN])
{
	derived_put(site->derived, due, salted);
}

/* ---- verifiers of users ---- */

/* One derivation, and the logins that wait for it. */
struct verifier_wait {
	struct list logins; /* struct login by .verifier_node */
	/* borrowed */
	struct site *site;
	struct user *user;
};

const struct scram_verifier *derive_verifier(struct user *user, uint32_t rounds)
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
	mem_random(v->salt, SCRAM_SALT_LEN);
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

static void wait_free(struct verifier_wait *wait)
{
	map_del(wait->site->verifier_waits, &wait->user, sizeof(wait->user));
	mem_free(wait);
}

static void verifier_derived(struct derivation *derivation)
{
	struct verifier_wait *wait = derivation->owner;
	struct user *user = wait->user;
	struct scram_verifier found = {0};
	struct node *node;

	scram_verifier_from_salted(&found, &derivation->due, derivation->salted);
	/* its password or the number of rounds may have changed meanwhile */
	if (is_of_salt(user->adhoc, &derivation->due)) {
		take_keys(user->adhoc, &found);
		user->has_adhoc_keys = true;
	}
	while ((node = list_first(&wait->logins))) {
		struct login *login = container_of(node, struct login, verifier_node);
		list_remove(&wait->logins, node);
		login->verifier_wait = NULL;
		if (is_of_salt(&login->verifier, &derivation->due)) {
			take_keys(&login->verifier, &found);
			login->lacks_keys = false;
		}
		login->derived(login->client);
	}
	scram_verifier_done(&found);
	wait_free(wait);
}

bool derive_is_shared(const struct client *client)
{
	const struct scram_verifier *own = &client->login->verifier;
	struct scram_due due = {NULL, own->salt, own->salt_len, own->iterations};

	return is_of_salt(client->user->adhoc, &due);
}

int derive_verifier_keys(struct client *client, struct err *err)
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
		if (!submit(site, &due, verifier_derived, wait, err)) {
			mem_free(wait);
			return -1;
		}
		map_put(site->verifier_waits, &wait->user, sizeof(wait->user), wait);
	}
	login->verifier_wait = wait;
	list_push_back(&wait->logins, &login->verifier_node);
	return 0;
}

void derive_leave(struct client *client)
{
	struct login *login = client->login;

	if (login->verifier_wait)
		list_remove(&login->verifier_wait->logins, &login->verifier_node);
	login->verifier_wait = NULL;
}

void derive_done(struct site *site)
{
	struct verifier_wait *wait;
	size_t at = 0;

	while ((wait = map_next(site->verifier_waits, &at)))
		mem_free(wait);
	map_free(&site->verifier_waits);
	derived_free(&site->derived);
}
