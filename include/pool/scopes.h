/*
 * The scopes for which settings are asked.  The functions scope_NAME() of conf/scope.h
 * give the value, for example scope_query_timeout(scope_of_pool(pool)).  A scope is
 * valid for the current turn of the loop.
 */
#ifndef POOL_SCOPES_H
#define POOL_SCOPES_H

#include "conf/scope.h"

/* Where servers' passwords come from, if not from what the pooler knows of the user; at
 * most one of them is not NULL.  Borrowed. */
struct password_source {
	const char *command, *file;
};

struct database;
struct pool;
struct user;

/* For the servers of a pool: the user as whom they log in, then the database. */
struct scope scope_of_pool(const struct pool *pool);
/* For a client: the user as whom it logged in (NULL: not known yet), then the
 * database. */
struct scope scope_of_login(const struct database *db, const struct user *login_user);
/* For a database, whoever uses it. */
struct scope scope_of_database(const struct database *db);
/* For a user in all databases. */
struct scope scope_of_user(const struct user *user);

/* The innermost level with one of the two settings decides. */
struct password_source scope_password_source(struct scope s);
/* For logins to servers as this user, or NULL: none.  password= of the database comes
 * first. */
struct password_source password_source_of(
    const struct database *db, const struct user *login_user);

#endif
