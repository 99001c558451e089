/*
 * Which value of a setting is in force: user before database before global.  Read anew
 * at every use, so that SET and RELOAD need to tell nobody.
 */
#include "pool/effective.h"

static const struct settings *settings_of(const struct database *db)
{
	return &db->catalog->config->settings;
}

const struct settings *pool_settings(const struct pool *pool)
{
	return settings_of(pool->database);
}

/* -1 inherits. */
static int first_set(int own, int inherited)
{
	return own >= 0 ? own : inherited;
}

/* Only more than 0 overrides. */
static int first_positive(int own, int inherited)
{
	return own > 0 ? own : inherited;
}

static uint64_t first_timeout(uint64_t own_us, uint64_t inherited_us)
{
	return own_us ? own_us : inherited_us;
}

static const struct user_config *config_of(const struct user *user)
{
	return user ? user->config : NULL;
}

int database_pool_size(const struct database *db)
{
	return first_set(db->config->pool_size, settings_of(db)->default_pool_size);
}

int database_min_pool_size(const struct database *db)
{
	return first_set(db->config->min_pool_size, settings_of(db)->min_pool_size);
}

int database_reserve_pool_size(const struct database *db)
{
	return first_set(
	    db->config->reserve_pool_size, settings_of(db)->reserve_pool_size);
}

uint64_t database_server_lifetime(const struct database *db)
{
	return first_timeout(
	    db->config->server_lifetime, settings_of(db)->server_lifetime);
}

int database_max_connections(const struct database *db)
{
	return first_positive(
	    db->config->max_db_connections, settings_of(db)->max_db_connections);
}

int database_max_client_connections(const struct database *db)
{
	return first_positive(db->config->max_db_client_connections,
	    settings_of(db)->max_db_client_connections);
}

int user_max_connections(const struct catalog *c, const struct user *user)
{
	const struct user_config *own = config_of(user);

	return first_positive(own ? own->max_user_connections : -1,
	    c->config->settings.max_user_connections);
}

int user_max_client_connections(const struct catalog *c, const struct user *user)
{
	const struct user_config *own = config_of(user);

	return first_positive(own ? own->max_user_client_connections : -1,
	    c->config->settings.max_user_client_connections);
}

uint64_t user_query_timeout(const struct catalog *c, const struct user *user)
{
	const struct user_config *own = config_of(user);

	return first_timeout(
	    own ? own->query_timeout : 0, c->config->settings.query_timeout);
}

uint64_t user_transaction_timeout(const struct catalog *c, const struct user *user)
{
	const struct user_config *own = config_of(user);

	return first_timeout(own ? own->transaction_timeout : 0,
	    c->config->settings.transaction_timeout);
}

uint64_t user_idle_transaction_timeout(const struct catalog *c, const struct user *user)
{
	const struct user_config *own = config_of(user);

	return first_timeout(own ? own->idle_transaction_timeout : 0,
	    c->config->settings.idle_transaction_timeout);
}

uint64_t user_client_idle_timeout(
    const struct catalog *c, const struct user *login_user)
{
	const struct user_config *own = config_of(login_user);

	return first_timeout(own ? own->client_idle_timeout : 0,
	    c->config->settings.client_idle_timeout);
}

uint64_t query_wait_timeout(const struct database *db, const struct user *login_user)
{
	const struct user_config *own = config_of(login_user);

	if (own && own->query_wait_timeout >= 0)
		return (uint64_t)own->query_wait_timeout;
	if (db->config->query_wait_timeout >= 0)
		return (uint64_t)db->config->query_wait_timeout;
	return settings_of(db)->query_wait_timeout;
}

const char *database_auth_user(const struct database *db)
{
	const char *own = db->config->auth_user;
	const char *name = own ? own : settings_of(db)->auth_user;

	return name && *name ? name : NULL;
}

const char *database_auth_dbname(const struct database *db)
{
	const char *own = db->config->auth_dbname;
	const char *name = own ? own : settings_of(db)->auth_dbname;

	return name && *name ? name : NULL;
}

const char *database_auth_query(const struct database *db)
{
	const char *own = db->config->auth_query;

	return own ? own : settings_of(db)->auth_query;
}

int database_channel_binding(const struct database *db)
{
	if (db->config->channel_binding >= 0)
		return db->config->channel_binding;
	return settings_of(db)->server_channel_binding;
}

uint64_t database_auth_query_cache_time(const struct database *db)
{
	if (db->config->auth_query_cache_time >= 0)
		return (uint64_t)db->config->auth_query_cache_time;
	return settings_of(db)->auth_query_cache_time;
}

const struct secret *pool_server_secret(const struct pool *pool)
{
	const struct database *db = pool->database;

	if (pool->user == db->forced_user && db->forced_secret.kind != SECRET_NONE)
		return &db->forced_secret;
	if (pool->user != db->forced_user && pool->user->remembered)
		return &pool->user->remembered->secret;
	if (pool->user != db->forced_user && !pool->user->has_secret && pool->has_found)
		return &pool->found;
	return &pool->user->secret;
}

struct scram_cache *pool_server_scram_cache(struct pool *pool)
{
	const struct secret *secret = pool_server_secret(pool);

	if (pool->user->remembered && secret == &pool->user->remembered->secret)
		return &pool->user->remembered->cache;
	if (secret == &pool->database->forced_secret)
		return &pool->database->forced_cache;
	if (secret == &pool->found)
		return &pool->found_cache;
	return &pool->user->scram_cache;
}

int pool_mode(const struct pool *pool)
{
	const struct user_config *own = config_of(pool->user);

	if (own && own->pool_mode >= 0)
		return own->pool_mode;
	return first_set(
	    pool->database->config->pool_mode, pool_settings(pool)->pool_mode);
}

int pool_session_state(const struct pool *pool)
{
	const struct user_config *own = config_of(pool->user);

	if (own && own->session_state >= 0)
		return own->session_state;
	return first_set(
	    pool->database->config->session_state, pool_settings(pool)->session_state);
}

int pool_size(const struct pool *pool)
{
	const struct user_config *own = config_of(pool->user);

	return own && own->pool_size >= 0 ? own->pool_size
					  : database_pool_size(pool->database);
}

int pool_reserve_size(const struct pool *pool)
{
	const struct user_config *own = config_of(pool->user);

	return own && own->reserve_pool_size >= 0
		   ? own->reserve_pool_size
		   : database_reserve_pool_size(pool->database);
}

int pool_min_size(const struct pool *pool)
{
	return database_min_pool_size(pool->database);
}

bool pool_is_closing_for_pause(const struct pool *pool)
{
	const struct database *db = pool->database;

	return !db->is_admin && (db->paused || db->catalog->paused);
}

bool pool_is_paused(const struct pool *pool)
{
	return pool_is_closing_for_pause(pool) ||
	       (pool->database->catalog->suspended && !pool->database->is_admin);
}

size_t pool_connected_count(const struct pool *pool)
{
	return pool->seats[SEAT_ACTIVE].count + pool->seats[SEAT_BEING_CANCELED].count +
	       pool->seats[SEAT_IDLE].count + pool->seats[SEAT_TESTED].count +
	       pool->seats[SEAT_USED].count;
}

size_t pool_server_count(const struct pool *pool)
{
	return pool_connected_count(pool) + pool->seats[SEAT_LOGIN].count +
	       pool->seats[SEAT_ACTIVE_CANCEL].count;
}

bool pool_is_oversized(const struct pool *pool)
{
	int size = pool_size(pool);

	return size > 0 && pool_connected_count(pool) >
			       (size_t)size + (size_t)pool_reserve_size(pool);
}

bool pool_is_undersized(const struct pool *pool)
{
	size_t connected = pool_connected_count(pool);

	return connected < (size_t)pool_min_size(pool) &&
	       connected < (size_t)pool_size(pool);
}

bool pool_has_check(const struct pool *pool)
{
	const char *query = pool_settings(pool)->server_check_query;

	return query && *query;
}

uint64_t pool_lifetime_spacing(const struct pool *pool)
{
	int size = pool_size(pool);

	return size > 0 ? database_server_lifetime(pool->database) / (uint64_t)size : 0;
}
