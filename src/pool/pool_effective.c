/*
 * Values in force for a pool: sizes, modes, pauses, secrets, counts.  They are looked
 * up at every use, so that SET and RELOAD need not update anything.
 */
#include "pool/pool_effective.h"

#include "base/time_us.h"
#include "pool/host_group.h"
#include "pool/hosts_role.h"

/* Short enough not to be noticed, and long enough to cost little. */
enum { LOGIN_RETRY_LEAST_US = 10000 };

const struct secret *pool_server_secret(const struct pool *pool)
{
	const struct database *db = pool->database;

	if (pool->user == db->forced_user && db->forced_secret.kind != SECRET_NONE)
		return &db->forced_secret;
	if (pool->user != db->forced_user && pool->user->remembered)
		return &pool->user->remembered->secret;
	if (pool->user != db->forced_user && !pool->user->has_secret &&
	    pool->credentials.found)
		return &pool->credentials.found->secret;
	return &pool->user->secret;
}

struct scram_cache *pool_server_scram_cache(struct pool *pool)
{
	const struct secret *secret = pool_server_secret(pool);

	if (pool->user->remembered && secret == &pool->user->remembered->secret)
		return &pool->user->remembered->cache;
	if (secret == &pool->database->forced_secret)
		return &pool->database->forced_cache;
	if (pool->credentials.found && secret == &pool->credentials.found->secret)
		return &pool->credentials.found->keys;
	return &pool->user->scram_cache;
}

int pool_mode(const struct pool *pool)
{
	return scope_pool_mode(scope_of_pool(pool));
}

int pool_size(const struct pool *pool)
{
	return scope_default_pool_size(scope_of_pool(pool));
}

int pool_reserve_size(const struct pool *pool)
{
	return scope_reserve_pool_size(scope_of_pool(pool));
}

int pool_min_size(const struct pool *pool)
{
	if (pool->database->catalog->is_leaving ||
	    pool->database->catalog->view.serves_nobody)
		return 0;
	return scope_min_pool_size(scope_of_pool(pool));
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

/* Servers that nobody waits for: those that are closed as soon as another host serves,
 * and the one that listens for all clients. */
static size_t count_unawaited(const struct pool *pool)
{
	bool is_judged = hosts_are_judged(pool->database);
	const struct slot *slot;
	size_t count = 0;

	list_for (slot, &pool->slots[SLOT_ACTIVE], node)
		count += slot->is_listener ||
			 (is_judged && slot->pool_host &&
			     host_group_is_hopeless(&slot->pool_host->host->verdict));
	return count;
}

size_t pool_count_in_use(const struct pool *pool)
{
	return pool->slots[SLOT_ACTIVE].count + pool->slots[SLOT_TESTED].count +
	       pool->slots[SLOT_BEING_CANCELED].count - count_unawaited(pool);
}

size_t pool_connected_count(const struct pool *pool)
{
	return pool->slots[SLOT_ACTIVE].count + pool->slots[SLOT_BEING_CANCELED].count +
	       pool->slots[SLOT_IDLE].count + pool->slots[SLOT_TESTED].count +
	       pool->slots[SLOT_USED].count;
}

size_t pool_server_count(const struct pool *pool)
{
	return pool_connected_count(pool) + pool->slots[SLOT_LOGIN].count +
	       pool->slots[SLOT_ACTIVE_CANCEL].count;
}

size_t pool_connected_everywhere(const struct pool *pool)
{
	return (size_t)central_read(&pool->part.whole->connected);
}

size_t pool_servers_everywhere(const struct pool *pool)
{
	return (size_t)central_read(&pool->part.whole->servers);
}

size_t pool_queued_everywhere(const struct pool *pool)
{
	return (size_t)central_read(&pool->part.whole->queued);
}

bool pool_has_login_params(const struct pool *pool)
{
	return central_login_params(pool->part.whole) != 0;
}

bool pool_is_oversized(const struct pool *pool)
{
	int size = pool_size(pool);

	return size > 0 && pool_connected_everywhere(pool) >
			       (size_t)size + (size_t)pool_reserve_size(pool);
}

bool pool_is_undersized(const struct pool *pool)
{
	/* several workers may be logging in for the pool at the same time */
	size_t connected = pool->database->catalog->view.central->worker_count > 1
			       ? pool_servers_everywhere(pool)
			       : pool_connected_count(pool);

	return connected < (size_t)pool_min_size(pool) &&
	       connected < (size_t)pool_size(pool);
}

bool pool_has_check(const struct pool *pool)
{
	const char *query = scope_server_check_query(scope_of_pool(pool));

	return query && *query;
}

uint64_t pool_login_retry(const struct pool *pool)
{
	uint64_t retry_us = scope_server_login_retry(scope_of_pool(pool));

	if (hosts_are_watched(pool->database))
		retry_us = time_earlier(retry_us, HOSTS_RETRY_US);
	return time_later(retry_us, LOGIN_RETRY_LEAST_US);
}

uint64_t pool_lifetime_spacing(const struct pool *pool)
{
	int size = pool_size(pool);

	if (size <= 0)
		return 0;
	return scope_server_lifetime(scope_of_pool(pool)) / (uint64_t)size;
}

bool pool_is_empty(const struct pool *pool)
{
	return list_is_empty(&pool->clients) && list_is_empty(&pool->waiting) &&
	       list_is_empty(&pool->cancels_waiting) &&
	       list_is_empty(&pool->cancels_active) &&
	       list_is_empty(&pool->slots[SLOT_NONE]) && !pool_server_count(pool);
}

bool pool_may_be_freed(const struct pool *pool)
{
	return !pool->database->is_admin &&
	       (!pool->database->forced_user ||
		   scope_min_pool_size(scope_of_pool(pool)) <= 0);
}

/* Slots that need a check are closed first.  Depending on server_round_robin the list
 * is in one order or the other. */
struct slot *pool_longest_resting(const struct pool *pool)
{
	const struct list *used = &pool->slots[SLOT_USED];
	const struct list *idle = &pool->slots[SLOT_IDLE];
	const struct list *l = list_is_empty(used) ? idle : used;

	if (list_is_empty(l))
		return NULL;
	struct slot *x = container_of(list_first(l), struct slot, node);
	struct slot *y = container_of(list_last(l), struct slot, node);
	return x->rested_us < y->rested_us ? x : y;
}
