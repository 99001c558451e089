/*
 * For whom a setting is asked; then scope_NAME() of conf/scope.h answers, for example
 * scope_query_timeout(scope_of_pool(pool)).  A scope is valid for the current turn of
 * the loop.
 */
#ifndef POOL_SCOPES_H
#define POOL_SCOPES_H

#include "conf/scope.h"

struct database;
struct pool;
struct user;

/* Servers of a pool: the user whom they log in as, then the database. */
struct scope scope_of_pool(const struct pool *pool);
/* A client: the user whom it logged in as (NULL: not known yet), then the database. */
struct scope scope_of_login(const struct database *db, const struct user *login_user);
/* A database, whoever uses it. */
struct scope scope_of_database(const struct database *db);
/* A user in all databases. */
struct scope scope_of_user(const struct user *user);

#endif
