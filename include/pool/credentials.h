/*
 * Answers of auth_query, kept for auth_query_cache_time, and the secrets with which
 * pools log in to servers as users found by auth_query.
 */
#ifndef POOL_CREDENTIALS_H
#define POOL_CREDENTIALS_H

#include <stdint.h>

#include "auth/secret.h"
#include "pool/catalog.h"

struct credential {
	char *name;        /* owned: the name that was asked for */
	struct user *user; /* borrowed: the user that was found */
	struct secret secret;
	uint64_t asked_us; /* when the query was sent */
};

/* The secret that auth_query has found for a pool. */
struct found_secret {
	struct secret secret;
	struct scram_cache keys; /* derived from it */
	uint64_t asked_us;       /* when the query was sent */
};

/* With what a pool logs in to servers, besides what auth_file says of its user.
 * Clients' logins and moved pools bring the keys; credentials.c changes the rest. */
struct pool_credentials {
	/* SCRAM keys from a client's own login.  Only in pools without a forced
	 * user. */
	struct scram_keys login_keys;
	bool has_login_keys;
	/* owned; NULL: none.  It stays in its place, because logins that last refer to
	 * the keys. */
	struct found_secret *found;
};

/* With what a pool logs in to servers, for the same pool at another site or in another
 * process: no client has brought it there.  NULL: there is none. */
struct brought_credentials {
	const char *found; /* by auth_query */
	uint64_t found_us; /* when that query was sent */
	bool has_keys;
	struct scram_keys keys; /* of a client's own login */
	const char *remembered; /* the password that LDAP or PAM has accepted */
};
/* The texts are borrowed from the pool. */
void credentials_of_pool(const struct pool *pool, struct brought_credentials *out);
/* The pool takes over copies of what it lacks, or of what is newer. */
void credentials_bring(struct pool *pool, const struct brought_credentials *from);

/* Returns the answer kept for a name, for a client of this database.  NULL: there is
 * none, or it is too old. */
const struct credential *credential_find(
    struct database *db, const char *name, uint64_t now_us);
/* Keeps an answer, unless auth_query_cache_time is 0 for this database. */
void credential_keep(struct database *db, const char *name, struct user *user,
    const struct secret *secret, uint64_t asked_us);
void credential_forget(struct database *db, const char *name);
/* Frees the answers of a database; for database_free. */
void credentials_done(struct database *db);
/* Forgets the answers of all databases.  Answers to queries sent before are not kept
 * either (catalog->credentials_epoch changes). */
void credentials_forget_all(struct catalog *c);

/* Notes the secret that auth_query found for the pool's user.  It is used for logins to
 * servers, unless a later query has found another one.  A secret in auth_file has
 * priority. */
void credential_keep_for_pool(
    struct pool *pool, const struct secret *secret, uint64_t asked_us);
/* Forgets the pool's secret; for pool_free. */
void credential_forget_for_pool(struct pool *pool);

#endif
