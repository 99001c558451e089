/*
 * Decides what happens next in a pool: which client is told something, which server is
 * closed, checked or opened.  Each call returns one verdict and changes what the next
 * call sees, so that repeated calls come to an end.  Only the rules for new connections
 * (protocol.md 10.1) look at other pools.
 */
#include "base/time_us.h"
#include "pool/exchange.h"
#include "pool/hosts_role.h"
#include "pool/pool_effective.h"
#include "pool/queue.h"
#include "pool/room.h"
#include "pool/seats.h"

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

/* How often a site with a waiting client asks other sites again. */
enum { ASK_AGAIN_US = 5000 };

/* How long room is left to a client that has waited longer, at another worker or for
 * room under other limits as well: a tenth of the time that it has waited, within these
 * bounds.  It may never use the room, if its site stands still. */
enum { LEAST_COURTESY_US = 20000, MOST_COURTESY_US = 200000 };

/* A client that waits under several limits waits for one after the other, so that no
 * room is left unused for it.  After this time it waits for all of them at once,
 * because in its turn with one limit the room under another may always be gone
 * again. */
enum { STARVING_US = 1000000 };

/* How often a site checks whether the counts are still frozen for a view. */
enum { FROZEN_US = 1000 };

static struct verdict nothing(uint64_t wake_us)
{
	return (struct verdict){.kind = VERDICT_NONE, .wake_us = wake_us};
}

static struct ask *first_waiter(const struct pool *pool)
{
	struct node *first = list_first(&pool->waiting);

	return first ? container_of(first, struct ask, node) : NULL;
}

static struct seat *first_seat(const struct pool *pool, enum seat_state state)
{
	struct node *first = list_first(&pool->seats[state]);

	return first ? container_of(first, struct seat, node) : NULL;
}

/* ---- servers that must go ---- */

static struct seat *find_dirty(
    const struct pool *pool, enum seat_state state, bool only_replication)
{
	struct seat *seat;

	list_for (seat, &pool->seats[state], node) {
		if (seat->is_dirty && (!only_replication || seat->is_replication))
			return seat;
	}
	return NULL;
}

/* Returns after the first dirty seat.  It is usually found at once, because a marking
 * concerns most seats. */
static struct verdict retire_dirty(struct pool *pool)
{
	struct seat *seat = find_dirty(pool, SEAT_LOGIN, false);

	if (seat)
		return seat_retire(seat, "connect string changed");
	seat = find_dirty(pool, SEAT_USED, false);
	if (!seat)
		seat = find_dirty(pool, SEAT_IDLE, false);
	if (!seat)
		seat = find_dirty(pool, SEAT_ACTIVE, true);
	if (seat)
		return seat_retire(seat, seat->is_misplaced
					     ? "its host has another role now"
					     : error_text(ERROR_DATABASE_CHANGED));
	pool->has_dirty = false;
	return nothing(UINT64_MAX);
}

static struct verdict retire_for_pause(struct pool *pool)
{
	struct seat *seat = first_seat(pool, SEAT_USED);

	if (!seat)
		seat = first_seat(pool, SEAT_IDLE);
	if (!seat) {
		seat = first_seat(pool, SEAT_LOGIN);
		/* a connection that already has its client is kept */
		if (seat && seat->ask)
			seat = NULL;
	}
	return seat ? seat_retire(seat, "pause mode") : nothing(UINT64_MAX);
}

static struct verdict shrink(struct pool *pool)
{
	struct seat *seat = pool_longest_resting(pool);

	if (seat)
		return seat_retire(seat, "too many servers in the pool");
	exchange_tell_resting(pool, NOTE_LOOK);
	return nothing(UINT64_MAX);
}

/* ---- launching: protocol.md 10.1 ---- */

struct launch {
	struct pool *pool;
	const struct ask *asker; /* the first client in the queue; NULL: nobody waits */
	bool is_replication;
	bool may_evict, is_refill;
	/* the host for balance, though nobody waits */
	struct host *wanted;
	uint64_t now_us;
	/* the results */
	bool is_reserve, lacks_pool_room;
	/* the limit without room; ROOM_COUNT: there is room */
	enum room_kind lacks_room;
	/* the counts are frozen, so the limits could not be checked */
	bool is_frozen;
	bool is_behind; /* there is room, but another pool's client comes first */
	uint64_t wake_us;
	struct seat *evicted;
};

/* Number of logins that take long while another host can be tried: nobody waits for
 * them. */
static size_t slow_beside(const struct launch *l)
{
	return hosts_has_candidate(l->pool, l->now_us) ? l->pool->slow_count : 0;
}

static bool is_login_in_the_way(struct launch *l)
{
	const struct pool *pool = l->pool;

	if (pool->seats[SEAT_LOGIN].count <= slow_beside(l) ||
	    hosts_may_open_beside(pool))
		return false;
	if (pool->slow_count > 0 && !hosts_has_candidate(pool, l->now_us))
		l->wake_us = time_earlier(l->wake_us, hosts_due_us(pool));
	return true;
}

/* protocol.md 10.4: when the next attempt may follow a failed one. */
static uint64_t retry_time(const struct launch *l)
{
	const struct pool *pool = l->pool;
	uint64_t retry_us = pool->dial_us + pool_login_retry(pool);

	if (!pool->last_connect_failed || (pool->lacks_host && hosts_has_server(pool)))
		return 0;
	return pool->lacks_host ? time_earlier(retry_us, hosts_due_us(pool)) : retry_us;
}

/* Step 5.  One eviction at a time, because each call counts again. */
static bool has_pool_room(struct launch *l)
{
	struct pool *pool = l->pool;
	int size = pool_size(pool);

	if (size <= 0 || pool_servers_everywhere(pool) - slow_beside(l) < (size_t)size)
		return true;
	if (l->wanted) {
		l->lacks_pool_room = true;
		return false;
	}
	if (!l->is_replication) {
		/* the reserve is for clients that have waited longer than
		 * reserve_pool_timeout */
		uint64_t timeout = scope_reserve_pool_timeout(scope_of_pool(pool));
		int reserve = pool_reserve_size(pool);
		if (!timeout || reserve <= 0 || !l->asker || !l->may_evict)
			return false;
		if (pool_servers_everywhere(pool) >=
		    (size_t)pool_size(pool) + (size_t)reserve)
			return false;
		uint64_t since =
		    l->asker->last_us ? l->asker->last_us : l->asker->queued_us;
		if (l->now_us < since + timeout) {
			l->wake_us = time_earlier(l->wake_us, since + timeout);
			return false;
		}
		l->is_reserve = true;
		return true;
	}
	l->evicted = pool_longest_resting(pool);
	if (!l->evicted) {
		exchange_tell_resting(pool, NOTE_GIVE_UP);
		l->wake_us = time_earlier(l->wake_us, l->now_us + ASK_AGAIN_US);
	}
	return false;
}

static uint64_t courtesy_us(uint64_t place_us, uint64_t now_us)
{
	uint64_t share_us = place_us < now_us ? (now_us - place_us) / 10 : 0;

	if (share_us < LEAST_COURTESY_US)
		return LEAST_COURTESY_US;
	return time_earlier(share_us, MOST_COURTESY_US);
}

/* Leaves the room to the client with this place, which has waited longer, but not for
 * ever.  False: it is this pool's turn. */
static bool yields(struct launch *l, uint64_t theirs_us)
{
	if (!l->pool->yielded_us)
		l->pool->yielded_us = l->now_us;
	if (l->asker &&
	    l->now_us >= l->pool->yielded_us + courtesy_us(theirs_us, l->now_us))
		return false;
	l->wake_us = time_earlier(l->wake_us, l->now_us + ASK_AGAIN_US);
	return true;
}

/* Asks again regularly, because a server may come to rest there later. */
static void ask_elsewhere(struct launch *l, enum room_kind kind)
{
	if (!l->may_evict || exchange_view(l->pool)->central->worker_count == 1)
		return;
	exchange_ask_for_room(l->pool, kind);
	l->wake_us = time_earlier(l->wake_us, l->now_us + ASK_AGAIN_US);
}

/* Steps 6 to 8.  Nothing is evicted for one limit while another one leaves no room,
 * because it would be in vain. */
static bool has_limit_room(struct launch *l)
{
	struct seat *evicted = NULL;
	uint64_t theirs_us;

	for (enum room_kind kind = 0; kind < ROOM_COUNT; kind++) {
		if (!room_is_full(l->pool, kind))
			continue;
		struct seat *seat =
		    room_evictable(l->pool, kind, l->now_us, &l->wake_us);
		l->pool->yielded_us = 0;
		if (!evicted)
			evicted = seat;
		if (!seat || l->lacks_room == ROOM_COUNT)
			l->lacks_room = kind;
		if (!seat) {
			ask_elsewhere(l, kind);
			return false;
		}
	}
	l->evicted = evicted;
	if (evicted)
		return false;
	/* there is room, but another client may come first */
	enum room_kind kind = room_before(l->pool, &theirs_us);
	l->is_behind = kind != ROOM_COUNT && yields(l, theirs_us);
	l->lacks_room = l->is_behind ? kind : ROOM_COUNT;
	if (!l->is_behind)
		l->pool->yielded_us = l->pool->told_us = 0;
	else if (l->now_us >= l->pool->told_us + ASK_AGAIN_US) {
		l->pool->told_us = l->now_us;
		room_tell_first(l->pool, kind);
	}
	return !l->is_behind;
}

/* Where the monitor of hosts knows that none can be used, its next word is waited for.
 * Whoever needs a role also waits for the first one, which comes within a second: the
 * host that answers first may be an old primary. */
static bool awaits_verdicts(const struct pool *pool, uint64_t now_us)
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

static bool may_launch(struct launch *l)
{
	struct pool *pool = l->pool;

	if (is_login_in_the_way(l))
		return false;
	if (awaits_verdicts(pool, l->now_us)) {
		l->wake_us = time_earlier(l->wake_us, hosts_due_us(pool));
		return false;
	}
	uint64_t retry_us = retry_time(l);
	if (l->now_us < retry_us) {
		l->wake_us = time_earlier(l->wake_us, retry_us);
		return false;
	}
	/* another worker may have filled the pool up meanwhile */
	if (l->is_refill && !pool_is_undersized(pool))
		return false;
	/* if servers end by themselves, the pool is not filled up at full speed */
	if (l->is_refill && pool->has_wasted && l->now_us < pool->dial_us + REFILL_US) {
		l->wake_us = time_earlier(l->wake_us, pool->dial_us + REFILL_US);
		return false;
	}
	return has_pool_room(l) && has_limit_room(l);
}

/* Whether a connection is allowed, which is then counted at once under the lock, so
 * that all sites see the same room. */
static bool has_claimed(struct launch *l)
{
	/* connections put off while a view is read follow as soon as it is read */
	if (central_is_frozen(exchange_view(l->pool)->central)) {
		l->is_frozen = true;
		l->wake_us = time_earlier(l->wake_us, l->now_us + FROZEN_US);
		return false;
	}
	exchange_lock(l->pool);
	room_unclaim(l->pool);
	bool may = may_launch(l);
	if (may) {
		room_claim(l->pool);
		hosts_claim(l->pool, l->wanted ? l->wanted : hosts_next(l->pool));
	}
	exchange_unlock(l->pool);
	return may;
}

/* The set of limits for whose room the pool is to wait. */
static unsigned rooms_wanted(const struct launch *l)
{
	if (l->lacks_room == ROOM_COUNT)
		return 0;
	if (l->asker && l->now_us >= l->asker->queued_us + STARVING_US)
		return room_limited(l->pool);
	return ROOM_BIT(l->lacks_room);
}

/* The first in a queue is told of room, but may be unable to use it, because it waits
 * under other limits as well.  So those behind it look by themselves. */
static void look_for_room_later(struct launch *l)
{
	uint64_t since_us = l->asker->queued_us, before_us;
	uint64_t share_us = since_us < l->now_us ? (l->now_us - since_us) / 10 : 0;

	if (!room_is_wanted(l->pool) || room_before(l->pool, &before_us) == ROOM_COUNT)
		return;
	if (share_us < MOST_COURTESY_US)
		share_us = MOST_COURTESY_US;
	l->wake_us = time_earlier(l->wake_us, l->now_us + share_us);
}

static struct verdict launch(struct launch *l)
{
	if (has_claimed(l)) {
		room_want(l->pool, 0);
		return (struct verdict){.kind = VERDICT_DIAL,
		    .ask = l->is_replication
			       ? container_of(list_first(&l->pool->replicas),
				     struct ask, kind_node)
			       : NULL,
		    .is_reserve = l->is_reserve,
		    .is_replication = l->is_replication,
		    .wake_us = UINT64_MAX};
	}
	/* for min_pool_size only pools with more than their own are evicted, and only
	 * under the limit that all pools share */
	if (l->evicted && (l->may_evict || l->lacks_room == ROOM_PROCESS))
		return seat_retire(l->evicted, "evicted");
	if (l->may_evict) {
		room_want(l->pool, rooms_wanted(l));
		look_for_room_later(l);
	} else {
		room_want(l->pool, 0);
		if (l->lacks_room != ROOM_COUNT)
			l->wake_us = time_earlier(l->wake_us, l->now_us + REFILL_US);
	}
	return nothing(l->wake_us);
}

/* Whether there is a server under test for each waiting client, whose query has not run
 * for too long; *until_us is then when the next query has.  The list is in order of
 * time, and queries that hang are rare, so usually only one server is looked at. */
static bool may_await_tests(
    const struct pool *pool, uint64_t now_us, uint64_t *until_us)
{
	const struct list *tested = &pool->seats[SEAT_TESTED];
	size_t overdue = 0;
	struct seat *seat;

	if (pool->part.seekers.count > tested->count)
		return false;
	list_for (seat, tested, node) {
		if (now_us < seat->tested_us + TEST_PATIENCE_US) {
			*until_us = seat->tested_us + TEST_PATIENCE_US;
			return true;
		}
		if (++overdue > tested->count - pool->part.seekers.count)
			return false;
	}
	return true;
}

/* Whether clients wait whom no tested server will serve, or who need what a login
 * brings. */
static bool wants_server(const struct pool *pool, uint64_t now_us, uint64_t *wake_us)
{
	if (!list_is_empty(&pool->newcomers) && !pool_has_welcome(pool))
		return true;
	return !list_is_empty(&pool->part.seekers) &&
	       !may_await_tests(pool, now_us, wake_us);
}

/* Whether to open a server for min_pool_size.  Without clients of the pool here, that
 * is left to a site that has some, which is told.  Clients that wait elsewhere come
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

/* Opens a connection that nobody waits for.  If there is no room, the next server that
 * is given back makes some. */
static struct verdict launch_to_host(struct pool *pool, uint64_t now_us)
{
	struct launch l = {.pool = pool,
	    .lacks_room = ROOM_COUNT,
	    .wanted = hosts_wanted(pool),
	    .now_us = now_us,
	    .wake_us = UINT64_MAX};

	pool->wants_room = false;
	if (!l.wanted) {
		pool->wanted_host = 0;
		return nothing(UINT64_MAX);
	}
	if (is_login_in_the_way(&l))
		return nothing(l.wake_us);
	if (has_claimed(&l))
		return (struct verdict){.kind = VERDICT_DIAL, .wake_us = UINT64_MAX};
	bool is_short = l.lacks_pool_room || l.lacks_room != ROOM_COUNT;
	pool->wants_room = is_short && !l.is_behind && hosts_may_replace(pool);
	return nothing(l.is_frozen ? l.wake_us : UINT64_MAX);
}

/* If there is another host, one that makes a client wait is not used until it answers.
 * *wake_us: when to check again. */
static void doubt_slow_hosts(struct pool *pool, uint64_t now_us, uint64_t *wake_us)
{
	struct seat *seat;

	if (pool->database->hosts.count < 2)
		return;
	list_for (seat, &pool->seats[SEAT_LOGIN], node) {
		if (seat->is_slow)
			continue;
		uint64_t due_us = time_later(seat->born_us + LOGIN_PATIENCE_US,
		    hosts_other_due_us(pool, seat->share->host));
		if (now_us >= due_us)
			hosts_note_slow(seat);
		else
			*wake_us = time_earlier(*wake_us, due_us);
	}
}

static struct verdict launch_wanted(struct pool *pool, uint64_t now_us)
{
	struct ask *first = first_waiter(pool);
	uint64_t wake_us = UINT64_MAX;
	bool is_for_any = wants_server(pool, now_us, &wake_us);
	bool is_for_replica = !list_is_empty(&pool->replicas) &&
			      (!is_for_any || first->kind == ASK_REPLICATION);
	struct launch l = {.pool = pool,
	    .asker = first,
	    .lacks_room = ROOM_COUNT,
	    .is_replication = is_for_replica,
	    .may_evict = is_for_any || is_for_replica,
	    .now_us = now_us,
	    .wake_us = wake_us};

	/* a server that rests at another worker is available sooner than a new
	 * connection */
	if (is_for_any && !is_for_replica &&
	    exchange_has_help(pool, queue_first_seeker(pool), now_us, &l.wake_us))
		return nothing(l.wake_us);
	if (is_for_any)
		doubt_slow_hosts(pool, now_us, &l.wake_us);
	bool is_probe = pool->wants_probe;
	pool->wants_probe = false;
	l.is_refill = !l.may_evict && !is_probe;
	if (!l.is_refill || refills_here(pool, now_us, &l.wake_us))
		return launch(&l);
	room_want(pool, 0);
	return nothing(l.wake_us);
}

/* ---- the queue ---- */

static struct verdict check_used(struct pool *pool, uint64_t now_us)
{
	struct seat *seat = first_seat(pool, SEAT_USED);

	if (seat->is_dirty)
		return seat_retire(seat, "obsolete connection");
	uint64_t delay = scope_server_check_delay(scope_of_pool(pool));
	/* the setting has changed meanwhile, so no check is needed */
	if (!pool_has_check(pool) || (delay && now_us - seat->rested_us < delay))
		return queue_grant(queue_first_seeker(pool), seat, now_us);
	seat_move(seat, SEAT_TESTED, now_us);
	seat->was_checked = true;
	return (struct verdict){
	    .kind = VERDICT_CHECK, .seat = seat, .wake_us = UINT64_MAX};
}

/* A server that rests here goes to another worker, whose client comes first. */
static struct verdict serve_others(struct pool *pool, uint64_t now_us)
{
	int worker = exchange_receiver(pool, queue_first_seeker(pool), now_us);
	struct seat *seat = worker < 0 ? NULL : queue_idle_seat(pool);

	if (worker >= 0 && !seat)
		seat = first_seat(pool, SEAT_USED);
	return seat && !seat->is_dirty ? seat_carry(seat, (unsigned)worker)
				       : nothing(UINT64_MAX);
}

static struct verdict serve_seekers(struct pool *pool, uint64_t now_us)
{
	if (exchange_has_waiting(pool)) {
		struct verdict v = serve_others(pool, now_us);
		if (v.kind != VERDICT_NONE)
			return v;
	}
	if (list_is_empty(&pool->part.seekers))
		return nothing(UINT64_MAX);
	struct seat *seat = queue_idle_seat(pool);
	if (seat)
		return queue_grant(queue_first_seeker(pool), seat, now_us);
	uint64_t until_us;
	if (!list_is_empty(&pool->seats[SEAT_USED]) &&
	    !may_await_tests(pool, now_us, &until_us))
		return check_used(pool, now_us);
	return nothing(UINT64_MAX);
}

/* Clients that only wait for the welcome are admitted even while the pool is paused. */
static struct verdict admit(struct pool *pool, uint64_t now_us)
{
	struct node *first = list_first(&pool->newcomers);

	if (!first || !pool_has_welcome(pool))
		return nothing(UINT64_MAX);
	struct ask *ask = container_of(first, struct ask, kind_node);
	queue_serve(ask, now_us);
	return (struct verdict){.kind = VERDICT_ADMIT, .ask = ask};
}

/* Returns the text for all waiting clients, or NULL. */
static const char *refusal_of_all(const struct pool *pool, const char **sqlstate)
{
	if (pool->has_refused && !pool->is_killed) {
		*sqlstate = pool->failure_sqlstate;
		return pool->refusal;
	}
	if (!pool->is_killed && !pool->database->catalog->refuse_waiting &&
	    !pool->sends_away)
		return NULL;
	enum error_id id =
	    pool->is_killed ? ERROR_DATABASE_REMOVED : ERROR_SERVER_SHUTTING_DOWN;
	*sqlstate = error_sqlstate(id);
	return error_text(id);
}

static struct verdict refuse(struct pool *pool)
{
	struct ask *ask = first_waiter(pool);
	const char *sqlstate, *text = refusal_of_all(pool, &sqlstate);

	if (ask && text)
		return queue_refuse(ask, text, sqlstate);
	pool->has_refused = pool->sends_away = false;
	return nothing(UINT64_MAX);
}

static struct verdict next_while_running(struct pool *pool, uint64_t now_us)
{
	struct verdict v = serve_seekers(pool, now_us);

	if (v.kind == VERDICT_NONE && pool_is_oversized(pool))
		v = shrink(pool);
	struct seat *surplus = v.kind == VERDICT_NONE ? room_surplus(pool) : NULL;
	if (surplus)
		v = seat_retire(surplus, room_surplus_reason);
	if (v.kind == VERDICT_NONE && pool->wanted_host)
		v = launch_to_host(pool, now_us);
	if (v.kind == VERDICT_NONE)
		v = launch_wanted(pool, now_us);
	return v;
}

struct verdict pool_next(struct pool *pool, uint64_t now_us)
{
	struct verdict v = nothing(UINT64_MAX);

	if (pool->database->is_admin)
		return v;
	catalog_note_time(pool->database->catalog, now_us);
	if (pool->has_dirty)
		v = retire_dirty(pool);
	if (v.kind == VERDICT_NONE && !pool->is_killed)
		v = admit(pool, now_us);
	if (v.kind == VERDICT_NONE)
		v = refuse(pool);
	if (v.kind != VERDICT_NONE)
		return v;
	if (pool->is_killed) {
		room_want(pool, 0);
		return v;
	}
	exchange_note(pool);
	if (!pool_is_paused(pool))
		return next_while_running(pool, now_us);
	room_want(pool, 0);
	pool->wants_probe = false;
	if (pool_is_closing_for_pause(pool))
		return retire_for_pause(pool);
	struct seat *seat = first_seat(pool, SEAT_USED);
	return seat ? seat_retire(seat, "close unsafe file descriptors on suspend")
		    : nothing(UINT64_MAX);
}
