#include "pool/scopes.h"

#include "base/text.h"
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

struct password_source scope_password_source(struct scope s)
{
	const struct level *levels[] = {s.user, s.database, &s.settings->global};
	const struct level *level = NULL;

	for (size_t i = 0; i < 2 && !level; i++)
		if (levels[i] &&
		    (level_has(levels[i], SETTING_INDEX_server_password_command) ||
			level_has(levels[i], SETTING_INDEX_server_password_file)))
			level = levels[i];
	if (!level)
		level = levels[2];
	return (struct password_source){
	    .command = text_or_null(level->server_password_command),
	    .file = text_or_null(level->server_password_file),
	};
}

struct password_source password_source_of(
    const struct database *db, const struct user *login_user)
{
	if (login_user && login_user == db->forced_user &&
	    db->forced_secret.kind != SECRET_NONE)
		return (struct password_source){NULL, NULL};
	return scope_password_source(scope_of_login(db, login_user));
}
