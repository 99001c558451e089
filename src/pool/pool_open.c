/*
 * Whether a server is opened for a pool now: protocol.md 10.1, from top to bottom.
 * pool_open_next says for whom; decide() is the list of conditions, in their order;
 * open_for says what follows: the server is opened, another one is closed to make room,
 * or the pool waits.
 *
 * What is decided here is counted at once, under the lock that all workers share, so
 * that no limit is exceeded at any moment.
 */
#include "pool/pool_open.h"

#include "base/time_us.h"
#include "pool/conn_limits.h"
#include "pool/exchange.h"
#include "pool/hosts_role.h"
#include "pool/pool_effective.h"
#include "pool/queue.h"
#include "pool/slots.h"

/* How often a pool below min_pool_size checks for room under a limit, or replaces
 * servers that were lost unused.  Such a pool does not queue for room with pools whose
 * clients wait. */
enum { REFILL_US = 1000000 };

/* How long a client waits for servers that run their reset or check query before
 * another server is opened.  Much longer than such a query takes on a healthy server,
 * and short for a client. */
enum { TEST_PATIENCE_US = 200000 };

/* How long a client waits for a connection that is being opened before another host is
 * tried as well.  A host that is gone does not answer until server_connect_timeout. */
enum { LOGIN_PATIENCE_US = 200000 };

/* How often a worker with a waiting client asks other workers again. */
enum { ASK_AGAIN_US = 5000 };

/* How long a free slot is left to a client that has waited longer, at another worker or
 * under other limits as well: a tenth of the time that it has waited, within these
 * bounds.  It may never use the slot, if its worker stands still. */
enum { LEAST_LEFT_US = 20000, MOST_LEFT_US = 200000 };

/* A client that waits under several limits waits for one after the other, so that no
 * room is left unused for it.  After this time it waits for all of them at once,
 * because in its turn with one limit the room under another may always be gone
 * again. */
enum { STARVING_US = 1000000 };

/* How often a worker checks whether the counts are still frozen for a view. */
enum { FROZEN_US = 1000 };

/* Why a server is opened. */
enum purpose {
	FOR_CLIENTS,     /* they wait for any server, or for what a login tells */
	FOR_REPLICATION, /* the first replication client needs one of its own */
	FOR_PROBE,       /* the last login failed, and a client was refused for it */
	FOR_MIN_SIZE,    /* there are fewer than min_pool_size */
	FOR_HOST,        /* a host gets too few clients for want of connections */
	FOR_PLACE,       /* a server that is too old is to be replaced */
};

enum obstacle {
	OBSTACLE_NONE,
	OBSTACLE_TIME,  /* another login comes first, or a time has not come yet */
	OBSTACLE_SIZE,  /* pool_size is reached */
	OBSTACLE_LIMIT, /* a limit that pools share has no room */
	OBSTACLE_ELDER, /* it has, but another pool's client has waited longer */
};

struct decision {
	enum obstacle obstacle;
	enum conn_limit limit; /* of LIMIT and ELDER; else CONN_LIMIT_COUNT */
	struct slot
	    *evicted;     /* closing this one makes room; NULL: none may be closed */
	bool is_reserve;  /* pool_size is reached, and the reserve is used */
	uint64_t wake_us; /* when time alone can change the decision */
};

static struct decision wait_until(uint64_t wake_us)
{
	return (struct decision){
	    .obstacle = OBSTACLE_TIME, .limit = CONN_LIMIT_COUNT, .wake_us = wake_us};
}

/* ---- the conditions ---- */

/* Where the monitor of hosts knows that none can be used, its next word is waited for.
 * Whoever needs a role also waits for the first one, which comes within a second: the
 * host that answers first may be an old primary. */
static bool awaits_monitor(const struct pool *pool, uint64_t now_us)
{
	struct database *db = pool->database;

	if (!hosts_are_watched(db) || !db->catalog->events->hint)
		return false;
	if (hosts_are_judged(db) && !db->hosts.is_stale)
		return !hosts_has_candidate(pool, now_us);
	if (!hosts_has_roles(db) && !db->hosts.is_stale)
		return false;
	hosts_hint(db, db->hosts.list[0], NULL, now_us);
	return true;
}

/* protocol.md 10.4: when the next attempt may follow a failed one. */
static uint64_t retry_time(const struct pool *pool)
{
	uint64_t retry_us = pool->dial_us + pool_login_retry(pool);

	if (!pool->failure.kind ||
	    (pool->failure.kind == FAILURE_HOSTS && hosts_has_server(pool)))
		return 0;
	return pool->failure.kind == FAILURE_HOSTS
		   ? time_earlier(retry_us, hosts_due_us(pool))
		   : retry_us;
}

/* Step 5, where pool_size is reached.  One eviction at a time, because each call counts
 * again.  The reserve is for clients that have waited longer than
 * reserve_pool_timeout. */
static struct decision decide_beyond_size(
    struct pool *pool, enum purpose purpose, uint64_t now_us)
{
	struct decision d = {.obstacle = OBSTACLE_SIZE,
	    .limit = CONN_LIMIT_COUNT,
	    .wake_us = UINT64_MAX};
	const struct pool_request *first = queue_first(pool);
	uint64_t timeout = scope_reserve_pool_timeout(scope_of_pool(pool));
	int reserve = pool_reserve_size(pool);

	if (purpose == FOR_REPLICATION) {
		d.evicted = pool_longest_resting(pool);
		if (!d.evicted) {
			exchange_tell_resting(pool, NOTE_GIVE_UP);
			d.wake_us = now_us + ASK_AGAIN_US;
		}
		return d;
	}
	if (purpose != FOR_CLIENTS || !timeout || reserve <= 0 ||
	    pool_servers_everywhere(pool) >= (size_t)pool_size(pool) + (size_t)reserve)
		return d;
	uint64_t due_us =
	    (first->last_us ? first->last_us : first->queued_us) + timeout;
	d.is_reserve = now_us >= due_us;
	if (d.is_reserve)
		d.obstacle = OBSTACLE_NONE;
	else
		d.wake_us = due_us;
	return d;
}

static uint64_t tenth_since(uint64_t since_us, uint64_t now_us)
{
	return since_us < now_us ? (now_us - since_us) / 10 : 0;
}

/* Whether the room is left to the client with this place, which has waited longer, but
 * not for ever. */
static bool yields_to(struct pool *pool, uint64_t place_us, uint64_t now_us)
{
	uint64_t left_us = time_earlier(
	    time_later(tenth_since(place_us, now_us), LEAST_LEFT_US), MOST_LEFT_US);

	if (!pool->turn.yielded_us)
		pool->turn.yielded_us = now_us;
	return !queue_first(pool) || now_us < pool->turn.yielded_us + left_us;
}

/* Steps 6 and 7.  Nothing is evicted for one limit while another one leaves no room,
 * because it would be in vain. */
static struct decision decide_under_limits(
    struct pool *pool, bool is_for_client, uint64_t now_us)
{
	struct decision d = {.limit = CONN_LIMIT_COUNT, .wake_us = UINT64_MAX};
	uint64_t place_us;

	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++) {
		if (!conn_limits_is_full(pool, kind))
			continue;
		struct slot *slot =
		    conn_limits_evictable(pool, kind, now_us, &d.wake_us);
		pool->turn.yielded_us = 0;
		if (!d.obstacle || !slot) {
			d.obstacle = OBSTACLE_LIMIT;
			d.limit = kind;
			d.evicted = slot;
		}
		if (slot)
			continue;
		/* regularly, because a server may come to rest there later */
		if (is_for_client && exchange_has_workers(pool)) {
			exchange_ask_for_room(pool, kind);
			d.wake_us = time_earlier(d.wake_us, now_us + ASK_AGAIN_US);
		}
		return d;
	}
	if (d.obstacle)
		return d;
	d.limit = conn_limits_before(pool, &place_us);
	if (d.limit == CONN_LIMIT_COUNT || !yields_to(pool, place_us, now_us)) {
		pool->turn.yielded_us = pool->turn.told_us = 0;
		d.limit = CONN_LIMIT_COUNT;
		return d;
	}
	d.obstacle = OBSTACLE_ELDER;
	d.wake_us = now_us + ASK_AGAIN_US;
	if (now_us >= pool->turn.told_us + ASK_AGAIN_US) {
		pool->turn.told_us = now_us;
		conn_limits_tell_first(pool, d.limit);
	}
	return d;
}

/* Under the lock. */
static struct decision decide(struct pool *pool, enum purpose purpose, uint64_t now_us)
{
	/* nobody waits for logins that take long while another host can be tried */
	size_t slow = hosts_has_candidate(pool, now_us) ? pool->balance.slow_logins : 0;
	bool is_refill = purpose == FOR_MIN_SIZE;
	bool is_reserve = false;

	/* 1. one login at a time, but for those to different hosts */
	if (pool->slots[SLOT_LOGIN].count > slow && !hosts_may_open_beside(pool))
		return wait_until(
		    pool->balance.slow_logins > slow ? hosts_due_us(pool) : UINT64_MAX);
	if (awaits_monitor(pool, now_us))
		return wait_until(hosts_due_us(pool));
	/* 2. not at once after an attempt that has failed */
	uint64_t retry_us = retry_time(pool);
	if (now_us < retry_us)
		return wait_until(retry_us);
	/* another worker may have filled the pool up meanwhile */
	if (is_refill && !pool_is_undersized(pool))
		return wait_until(UINT64_MAX);
	/* if servers end by themselves, the pool is not filled up at full speed */
	if (is_refill && pool->has_wasted && now_us < pool->dial_us + REFILL_US)
		return wait_until(pool->dial_us + REFILL_US);
	/* 5. pool_size and the reserve */
	size_t size = (size_t)pool_size(pool);
	if (size && pool_servers_everywhere(pool) - slow >= size) {
		struct decision d = decide_beyond_size(pool, purpose, now_us);
		if (d.obstacle)
			return d;
		is_reserve = true;
	}
	/* 6. and 7. the limits that pools share */
	struct decision d = decide_under_limits(
	    pool, purpose == FOR_CLIENTS || purpose == FOR_REPLICATION, now_us);
	d.is_reserve = is_reserve;
	return d;
}

static struct decision decide_and_claim(
    struct pool *pool, enum purpose purpose, uint64_t now_us)
{
	/* connections put off while a view is read follow as soon as it is read */
	if (central_is_frozen(exchange_view(pool)->central))
		return wait_until(now_us + FROZEN_US);
	exchange_lock(pool);
	conn_limits_unclaim(pool);
	struct decision d = decide(pool, purpose, now_us);
	if (!d.obstacle) {
		conn_limits_claim(pool);
		hosts_claim(
		    pool, purpose == FOR_HOST ? hosts_wanted(pool) : hosts_next(pool));
	}
	exchange_unlock(pool);
	return d;
}

/* ---- what follows ---- */

/* The set of limits for whose room the pool is to wait. */
static unsigned rooms_wanted(
    const struct pool *pool, enum conn_limit limit, uint64_t now_us)
{
	if (limit == CONN_LIMIT_COUNT)
		return 0;
	if (now_us >= queue_first(pool)->queued_us + STARVING_US)
		return conn_limits_limited(pool);
	return CONN_LIMIT_BIT(limit);
}

/* The first in a queue is told of room, but may be unable to use it, because it waits
 * under other limits as well.  So those behind it look by themselves. */
static uint64_t look_again_us(const struct pool *pool, uint64_t now_us)
{
	const struct pool_request *first = queue_first(pool);
	uint64_t place_us;

	if (!first || !conn_limits_is_wanted(pool) ||
	    conn_limits_before(pool, &place_us) == CONN_LIMIT_COUNT)
		return UINT64_MAX;
	return now_us + time_later(tenth_since(first->queued_us, now_us), MOST_LEFT_US);
}

static struct verdict open_for(
    struct pool *pool, enum purpose purpose, uint64_t wake_us, uint64_t now_us)
{
	struct decision d = decide_and_claim(pool, purpose, now_us);

	wake_us = time_earlier(wake_us, d.wake_us);
	if (!d.obstacle) {
		conn_limits_want(pool, 0);
		return (struct verdict){.kind = VERDICT_DIAL,
		    .request = purpose == FOR_REPLICATION
				   ? container_of(list_first(&pool->replicas),
					 struct pool_request, kind_node)
				   : NULL,
		    .is_reserve = d.is_reserve,
		    .is_replication = purpose == FOR_REPLICATION,
		    .wake_us = UINT64_MAX};
	}
	if (purpose == FOR_CLIENTS || purpose == FOR_REPLICATION) {
		if (d.evicted)
			return slot_retire(d.evicted, "evicted");
		conn_limits_want(pool, rooms_wanted(pool, d.limit, now_us));
		wake_us = time_earlier(wake_us, look_again_us(pool, now_us));
	} else {
		/* for nobody only pools with more than their min_pool_size are evicted,
		 * and only under the limit that all pools share */
		if (d.evicted && d.limit == CONN_LIMIT_PROCESS)
			return slot_retire(d.evicted, "evicted");
		conn_limits_want(pool, 0);
		if (d.limit != CONN_LIMIT_COUNT)
			wake_us = time_earlier(wake_us, now_us + REFILL_US);
	}
	return (struct verdict){.kind = VERDICT_NONE, .wake_us = wake_us};
}

/* Opens a connection that nobody waits for.  If there is no room, the next server that
 * is given back makes some. */
static bool opens_for_host(struct pool *pool, uint64_t now_us)
{
	pool->balance.wants_room = false;
	if (!hosts_wanted(pool)) {
		pool->balance.wanted = 0;
		return false;
	}
	enum obstacle obstacle = decide_and_claim(pool, FOR_HOST, now_us).obstacle;
	pool->balance.wants_room =
	    (obstacle == OBSTACLE_SIZE || obstacle == OBSTACLE_LIMIT) &&
	    hosts_may_replace(pool);
	return obstacle == OBSTACLE_NONE;
}

/* ---- for whom ---- */

/* Until when the waiting clients wait for servers under test, of which there is one for
 * each whose query has not run for too long; 0: they do not.  The list is in order of
 * time, and queries that hang are rare, so usually only one server is looked at. */
static uint64_t tests_due_us(const struct pool *pool, uint64_t now_us)
{
	const struct list *tested = &pool->slots[SLOT_TESTED];
	size_t overdue = 0;
	struct slot *slot;

	list_for (slot, tested, node) {
		if (pool->part.waiters.count + overdue > tested->count)
			break;
		if (now_us < slot->tested_us + TEST_PATIENCE_US)
			return slot->tested_us + TEST_PATIENCE_US;
		overdue++;
	}
	return 0;
}

bool pool_open_awaits_tests(const struct pool *pool, uint64_t now_us)
{
	return tests_due_us(pool, now_us) > 0;
}

/* Whether to open a server for min_pool_size.  Without clients of the pool here, that
 * is left to a worker that has some, which is told.  Clients that wait elsewhere come
 * first: a server may just have been closed for one of them. */
static bool refills_here(struct pool *pool, uint64_t now_us, uint64_t *wake_us)
{
	if (!pool_is_undersized(pool))
		return false;
	if (pool_queued_everywhere(pool) > pool->waiting.count) {
		*wake_us = time_earlier(*wake_us, now_us + REFILL_US);
		return false;
	}
	if (!list_is_empty(&pool->clients) || !list_is_empty(&pool->waiting) ||
	    pool->user == pool->database->forced_user)
		return true;
	exchange_tell_clients(pool);
	return false;
}

/* If there is another host, one that makes a client wait is not used until it answers.
 * *wake_us: when to check again. */
static void doubt_slow_hosts(struct pool *pool, uint64_t now_us, uint64_t *wake_us)
{
	struct slot *slot;

	if (pool->database->hosts.count < 2)
		return;
	list_for (slot, &pool->slots[SLOT_LOGIN], node) {
		if (slot->is_slow)
			continue;
		uint64_t due_us = time_later(slot->born_us + LOGIN_PATIENCE_US,
		    hosts_other_due_us(pool, slot->pool_host->host));
		if (now_us >= due_us)
			hosts_note_slow(slot);
		else
			*wake_us = time_earlier(*wake_us, due_us);
	}
}

struct verdict pool_open_next(struct pool *pool, uint64_t now_us)
{
	const struct pool_request *first = queue_first(pool);
	const struct pool_request *waiter = queue_first_waiter(pool);
	uint64_t tests_us = waiter ? tests_due_us(pool, now_us) : 0;
	uint64_t wake_us = tests_us ? tests_us : UINT64_MAX;
	bool is_for_any =
	    (waiter && !tests_us) ||
	    (!list_is_empty(&pool->param_waiters) && !pool_has_login_params(pool));
	bool is_for_replica =
	    !list_is_empty(&pool->replicas) &&
	    (!is_for_any || (first && first->kind == REQUEST_REPLICATION));
	bool is_probe = pool->wants_probe;

	if (pool->balance.wanted && opens_for_host(pool, now_us))
		return (struct verdict){.kind = VERDICT_DIAL, .wake_us = UINT64_MAX};
	/* a server that rests at another worker is available sooner than a new
	 * connection, and sooner than one whose test hangs */
	bool awaits_help = exchange_await_help(pool, waiter, now_us, &wake_us);
	if (awaits_help && !is_for_replica)
		return (struct verdict){.kind = VERDICT_NONE, .wake_us = wake_us};
	if (is_for_any)
		doubt_slow_hosts(pool, now_us, &wake_us);
	pool->wants_probe = false;
	if (is_for_replica)
		return open_for(pool, FOR_REPLICATION, wake_us, now_us);
	if (is_for_any)
		return open_for(pool, FOR_CLIENTS, wake_us, now_us);
	if (is_probe)
		return open_for(pool, FOR_PROBE, wake_us, now_us);
	if (refills_here(pool, now_us, &wake_us))
		return open_for(pool, FOR_MIN_SIZE, wake_us, now_us);
	conn_limits_want(pool, 0);
	struct pool_replacement *r = &pool->replacement;
	if (r->old && r->stage == REPLACE_WANTED) {
		/* Nothing is closed or waited for instead: without room the old one
		 * closes first. */
		enum obstacle obstacle =
		    decide_and_claim(pool, FOR_PLACE, now_us).obstacle;
		if (obstacle != OBSTACLE_TIME)
			r->stage = obstacle ? REPLACE_DUE : REPLACE_OPENING;
		if (!obstacle)
			return (struct verdict){
			    .kind = VERDICT_DIAL, .wake_us = UINT64_MAX};
	}
	return (struct verdict){.kind = VERDICT_NONE, .wake_us = wake_us};
}
