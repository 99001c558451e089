/*
 * What auth_query has found: answers kept for auth_query_cache_time, and the secret
 * with which the pool of a user found so logs in to its server.
 */
#ifndef POOL_CREDENTIALS_H
#define POOL_CREDENTIALS_H

#include <stdint.h>

#include "auth/secret.h"
#include "pool/catalog.h"

struct credential {
	char *name;        /* owned: who was asked for */
	struct user *user; /* borrowed: who was found */
	struct secret secret;
	uint64_t asked_us; /* when the query was sent */
};

/* The answer for a client of this database; NULL when there is none that is fresh. */
const struct credential *credential_find(
    struct database *db, const char *name, uint64_t now_us);
/* Keep one, unless answers of this database are not to be kept. */
void credential_keep(struct database *db, const char *name, struct user *user,
    const struct secret *secret, uint64_t asked_us);
void credential_forget(struct database *db, const char *name);
/* All of one database, for database_free. */
void credentials_done(struct database *db);
/* All of all databases; answers to what was asked before are not kept either
 * (catalog->credentials_epoch moves on). */
void credentials_forget_all(struct catalog *c);

/* The pool's user was found with this secret: it is the one for server logins from now
 * on, unless a later query has found another.  Secrets of auth_file go before it. */
void credential_keep_for_pool(
    struct pool *pool, const struct secret *secret, uint64_t asked_us);
/* For pool_free. */
void credential_forget_for_pool(struct pool *pool);

#endif
