#include "pool/credentials.h"

#include <string.h>

#include "pool/pool.h"

/* The most answers kept.  If there were more, the query would find any name that
 * clients make up, and keeping all answers would be of no use. */
enum { CREDENTIALS_MAX = 10000 };

static void credential_free(struct credential *credential)
{
	secret_done(&credential->secret);
	mem_free(credential->name);
	mem_free(credential);
}

void credential_forget(struct database *db, const char *name)
{
	struct credential *credential =
	    db->credentials ? map_del_str(db->credentials, name) : NULL;

	if (credential)
		credential_free(credential);
}

const struct credential *credential_find(
    struct database *db, const char *name, uint64_t now_us)
{
	struct credential *credential =
	    db->credentials ? map_get_str(db->credentials, name) : NULL;

	if (!credential)
		return NULL;
	if (now_us - credential->asked_us <
	    scope_auth_query_cache_time(scope_of_database(db)))
		return credential;
	credential_forget(db, name);
	return NULL;
}

void credential_keep(struct database *db, const char *name, struct user *user,
    const struct secret *secret, uint64_t asked_us)
{
	struct credential *credential;

	if (!scope_auth_query_cache_time(scope_of_database(db)))
		return;
	credential_forget(db, name);
	if (db->credentials && map_count(db->credentials) >= CREDENTIALS_MAX)
		credentials_done(db);
	if (!db->credentials)
		db->credentials = map_new();
	credential = mem_zero(sizeof(*credential));
	credential->name = mem_strdup(name);
	credential->user = user;
	credential->asked_us = asked_us;
	secret_init(&credential->secret, secret->text);
	map_put_str(db->credentials, credential->name, credential);
}

void credentials_done(struct database *db)
{
	struct credential *credential;
	size_t at = 0;

	if (!db->credentials)
		return;
	while ((credential = map_next(db->credentials, &at)))
		credential_free(credential);
	map_free(&db->credentials);
}

void credentials_forget_all(struct catalog *c)
{
	struct database *db;
	size_t at = 0;

	while ((db = map_next(c->databases, &at)))
		credentials_done(db);
	c->credentials_epoch++;
}

void credential_forget_for_pool(struct pool *pool)
{
	struct found_secret *found = pool->credentials.found;

	if (!found)
		return;
	secret_done(&found->secret);
	scram_cache_done(&found->keys);
	mem_free(found);
	pool->credentials.found = NULL;
}

void credential_keep_for_pool(
    struct pool *pool, const struct secret *secret, uint64_t asked_us)
{
	struct found_secret *found = pool->credentials.found;

	if (pool->user == pool->database->forced_user ||
	    (found && asked_us < found->asked_us))
		return;
	if (found && secret_is_equal(&found->secret, secret)) {
		found->asked_us = asked_us;
		return;
	}
	if (found) {
		secret_done(&found->secret);
		scram_cache_done(&found->keys);
	} else {
		found = pool->credentials.found = mem_zero(sizeof(*found));
	}
	secret_init(&found->secret, secret->text);
	found->asked_us = asked_us;
	/* these keys belong to the old secret */
	mem_wipe(&pool->credentials.login_keys, sizeof(pool->credentials.login_keys));
	pool->credentials.has_login_keys = false;
}

/* ---- to another site or process ---- */

void credentials_of_pool(const struct pool *pool, struct brought_credentials *out)
{
	const struct pool_credentials *own = &pool->credentials;
	const struct remembered *remembered = pool->user->remembered;

	*out = (struct brought_credentials){
	    .found = own->found ? own->found->secret.text : NULL,
	    .found_us = own->found ? own->found->asked_us : 0,
	    .has_keys = own->has_login_keys,
	    .keys = own->login_keys,
	    .remembered = remembered ? remembered->secret.text : NULL,
	};
}

/* Whether the keys belong to the secret that is in force here. */
static bool are_of_secret(const struct pool *pool, const struct scram_keys *keys)
{
	const struct secret *secret = pool_server_secret(pool);
	uint8_t stored[SCRAM_KEY_LEN];

	if (secret->kind != SECRET_SCRAM || pool->database->forced_user)
		return false;
	scram_stored_key(keys->client_key, stored);
	return memcmp(stored, secret->scram.stored_key, sizeof(stored)) == 0;
}

void credentials_bring(struct pool *pool, const struct brought_credentials *from)
{
	struct secret found;

	if (from->found) {
		secret_init(&found, from->found);
		credential_keep_for_pool(pool, &found, from->found_us);
		secret_done(&found);
	}
	if (from->has_keys && are_of_secret(pool, &from->keys)) {
		pool->credentials.login_keys = from->keys;
		pool->credentials.has_login_keys = true;
	}
	if (from->remembered && !pool->user->remembered)
		user_remember(pool->user, from->remembered);
}
