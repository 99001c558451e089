/*
 * The users of a catalog.  All sites share the user list in force, but each of them
 * counts the connections of its users itself, so it makes a user of its own when
 * somebody looks for one.
 */
#ifndef POOL_CATALOG_USERS_H
#define POOL_CATALOG_USERS_H

#include <stdbool.h>
#include <stddef.h>

#include "auth/scram.h"
#include "auth/secret.h"
#include "auth/userlist.h"
#include "base/list.h"

struct catalog;
struct central_limit;
struct user_config;

/* The last password that LDAP or PAM accepted.  It is used to log in to servers. */
struct remembered {
	struct secret secret;
	struct scram_cache cache; /* keys derived from the password */
};

struct user {
	char *name;
	struct catalog *catalog;
	struct secret secret; /* from auth_file; SECRET_NONE if has_secret is false */
	struct remembered *remembered; /* owned; NULL: no password */
	bool has_secret; /* auth_file has this user (perhaps with an empty secret) */
	bool is_listed;  /* auth_file has this user, or had */
	const struct user_config
	    *config; /* borrowed from catalog->config; NULL: no [users] entry */
	/* owned: verifier made from a plain password, kept until the password changes;
	 * NULL: not made yet */
	struct scram_verifier *adhoc;
	bool has_adhoc_keys; /* false: adhoc has only salt and iteration count so far */
	struct scram_cache scram_cache; /* keys derived for logins to servers */
	/* at this worker: slots of all pools whose pool user this is, in any state */
	int server_count;
	int client_count;            /* clients that have proven to be this user */
	struct central_limit *limit; /* one reference; NULL: nothing is counted yet */
	/* struct pool by .user_node: pools whose pool user this is */
	struct list pools;
	/* struct slot by .user_node: idle and used ones, the longest resting first */
	struct list resting;
};

/* Returns a user known from auth_file (even a former one), from [users], as a forced
 * user, or from auth_query; otherwise NULL. */
struct user *catalog_find_user(struct catalog *c, const char *name);
/* Returns the user, and adds it if it is not known. */
struct user *catalog_user(struct catalog *c, const char *name);
/* LDAP or PAM has accepted this password of the user.  It is copied, and used from now
 * on to log in to servers as this user. */
void user_remember(struct user *user, const char *password);

/* Count clients against max_user_client_connections, and clients that go to other
 * sites, like the functions for databases in catalog.h. */
bool user_may_enter(struct user *user, bool exempt);
void user_leave(struct user *user);
void user_carry(struct user *user);
void user_receive(struct user *user);

/* Takes over a user list in steps (takes a reference): whoever is looked for the first
 * time is looked for in the new list at once, and who has been before gets the new
 * secret in one of the steps. */
void catalog_begin_users(struct catalog *c, struct userlist *users);
/* Handles the next `most` users.  True: there are more. */
bool catalog_adopt_users(struct catalog *c, size_t most);

/* The number of users that catalog_find_user would find. */
size_t catalog_user_count(const struct catalog *c);
/* Calls fn for all users in order of names.  has_all: also for those of the user list
 * whom nobody has looked for yet; such a user exists during the call only. */
typedef void catalog_user_fn(void *ctx, const struct user *user);
void catalog_each_user(struct catalog *c, bool has_all, catalog_user_fn *fn, void *ctx);

#endif
