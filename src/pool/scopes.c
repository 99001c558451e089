/*
 * The scopes of pools, logins, databases and users.
 */
#include "pool/scopes.h"

#include "pool/pool.h"

static const struct level *own_of(const struct user *user)
{
	return user && user->config ? &user->config->own : NULL;
}

struct scope scope_of_login(const struct database *db, const struct user *login_user)
{
	return (struct scope){
	    .user = own_of(login_user),
	    .database = &db->config->own,
	    .settings = &db->catalog->config->settings,
	};
}

struct scope scope_of_pool(const struct pool *pool)
{
	return scope_of_login(pool->database, pool->user);
}

struct scope scope_of_database(const struct database *db)
{
	return scope_of_login(db, NULL);
}

struct scope scope_of_user(const struct user *user)
{
	return (struct scope){
	    .user = own_of(user),
	    .settings = &user->catalog->config->settings,
	};
}
