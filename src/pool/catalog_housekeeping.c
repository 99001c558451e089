/*
 * Drops what has been unused for long enough, and takes snapshots of counters.  The
 * idle lists are in order of time, so only what is due is looked at.
 */
#include <string.h>

#include "base/log_levels.h"
#include "base/time_us.h"
#include "pool/catalog_parts.h"
#include "pool/pool.h"
#include "pool/pool_effective.h"
#include "pool/slots.h"

static bool has_own_idle_timeout(const struct config *config)
{
	return config && config_has_own(config, SETTING_INDEX_pool_idle_timeout);
}

void catalog_refuse_paused(struct catalog *c)
{
	struct pool *pool;

	list_for (pool, &c->pool_list, node) {
		pool->sends_away =
		    pool_is_closing_for_pause(pool) && !list_is_empty(&pool->waiting);
		if (pool->sends_away)
			pool_schedule(pool);
	}
}

static uint64_t drop_idle_pools(
    struct catalog *c, catalog_note_fn *note, void *note_ctx)
{
	uint64_t timeout, next = UINT64_MAX;
	struct pool *pool, *after;
	bool is_uniform = !has_own_idle_timeout(c->config) &&
			  !has_own_idle_timeout(c->template_config);

	list_for_safe (pool, after, &c->idle_pools, idle_node) {
		uint64_t age = c->seen_us - pool->idle_since_us;
		timeout = scope_pool_idle_timeout(scope_of_pool(pool));
		if (pool->is_killed) {
			pool_free(pool);
		} else if (!timeout || age < timeout) {
			if (timeout)
				next =
				    time_earlier(next, pool->idle_since_us + timeout);
			/* with the same timeout for all, the rest of the list is not
			 * due either */
			if (is_uniform)
				break;
		} else if (pool_may_be_freed(pool)) {
			/* several sites have parts of one pool; only the last part is
			 * reported in the log */
			if (central_is_last(&pool->database->catalog->view,
				&pool->part.whole->name))
				catalog_note(note, note_ctx, LEVEL_LOG,
				    "cleaning up idle pool for user %s on db %s "
				    "because: "
				    "pool idle timeout (age= %llus)",
				    pool->user->name, pool->database->name,
				    (unsigned long long)(age / 1000000));
			pool_free(pool);
		}
	}
	return next;
}

/* Auth queries for clients of other databases may still use the pools. */
static bool has_used_pool(const struct database *db)
{
	struct pool *pool;

	list_for (pool, &db->pools, db_node) {
		if (!pool_is_empty(pool))
			return true;
	}
	return false;
}

static uint64_t drop_idle_databases(
    struct catalog *c, catalog_note_fn *note, void *note_ctx)
{
	uint64_t timeout, next = UINT64_MAX;
	struct database *db, *after;

	list_for_safe (db, after, &c->idle_databases, idle_node) {
		/* anybody can make a database from the template by asking for it, so
		 * unused ones go at once */
		bool is_due = !db->was_used;
		/* all of them have the same entry, the template, and so the same
		 * timeout */
		timeout = scope_autodb_idle_timeout(scope_of_database(db));
		if (!is_due && !timeout)
			break;
		if (!is_due && c->seen_us - db->idle_since_us < timeout) {
			next = db->idle_since_us + timeout;
			break;
		}
		/* PAUSE and DISABLE of the administrator would be forgotten with it */
		if (db->paused || db->disabled || has_used_pool(db))
			continue;
		if (!is_due && (!db->limit || central_is_last(&db->catalog->view,
						  &db->limit->name)))
			catalog_note(note, note_ctx, LEVEL_WARNING,
			    "dropping database '%s' as it does not exist anymore or "
			    "inactive auto-database",
			    db->name);
		database_drop(db, NULL, error_text(ERROR_DATABASE_REMOVED));
	}
	return next;
}

uint64_t catalog_housekeeping(
    struct catalog *c, uint64_t now_us, catalog_note_fn *note, void *note_ctx)
{
	catalog_note_time(c, now_us);
	uint64_t databases = drop_idle_databases(c, note, note_ctx);
	uint64_t pools = drop_idle_pools(c, note, note_ctx);
	return time_earlier(databases, pools);
}

void catalog_snapshot_stats(struct catalog *c, uint64_t now_us)
{
	struct pool *pool, *after;

	catalog_note_time(c, now_us);
	list_for_safe (pool, after, &c->counted, counted_node) {
		pool->history.older = pool->history.newer;
		pool->history.newer = pool->stats;
		latency_snapshot(&pool->latency);
		if (node_is_linked(&pool->idle_node) &&
		    latency_is_still(&pool->latency) &&
		    memcmp(&pool->history.older, &pool->stats, sizeof(pool->stats)) ==
			0)
			list_remove(&c->counted, &pool->counted_node);
	}
	c->snapshot_count++;
	c->older_snapshot_us = c->snapshot_us;
	c->snapshot_us = now_us;
}

/* ---- what was counted ---- */

int catalog_count_database(
    struct database *db, struct stats *sum, struct stats_history *history)
{
	struct catalog *c = db->catalog;
	const struct pool *pool;

	if (db->limit)
		central_take(&c->view, &db->limit->name, &db->kept);
	if (list_is_empty(&db->pools) && !db->kept)
		return -1;
	list_for (pool, &db->pools, db_node) {
		stats_add(sum, &pool->stats);
		if (history) {
			stats_add(&history->newer, &pool->history.newer);
			stats_add(&history->older, &pool->history.older);
		}
	}
	if (db->kept) {
		kept_follow(db->kept, c->snapshot_count);
		stats_add(sum, &db->kept->stats);
	}
	if (db->kept && history) {
		stats_add(&history->newer, &db->kept->history.newer);
		stats_add(&history->older, &db->kept->history.older);
	}
	return (int)db->pools.count;
}

const struct latency *catalog_durations_of(struct pool *pool)
{
	struct kept *left = NULL;

	if (pool->is_killed)
		return NULL;
	central_take(&pool->database->catalog->view, &pool->part.whole->name, &left);
	if (left)
		latency_merge(&pool->latency, &left->latency);
	kept_free(&left);
	return latency_is_empty(&pool->latency) ? NULL : &pool->latency;
}
