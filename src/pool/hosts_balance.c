/*
 * Chooses a host: for the next connection, for the next client, and for a connection
 * that no client waits for.  All walks here are over the hosts of one database.
 */
#include "pool/hosts.h"
#include "pool/hosts_role.h"
#include "pool/pool.h"
#include "pool/slots.h"

/* A host that is more clients than this behind its share gets another connection, and
 * one more each time it has fallen behind by as much again.  Small compared with real
 * imbalance, but large enough that chance opens no connections. */
enum { LAG_MAX = 32 };

/* From here on a connection to another host is closed to make room.  This is so rare
 * that the cost of the logins does not matter. */
enum { LAG_TO_REPLACE = 128 };

static int balance_of(const struct pool *pool)
{
	return pool->database->config->load_balance_hosts;
}

/* Whether a, with one more client, would have fewer clients for its weight than b with
 * one more. */
static bool is_owed_more(const struct host *a, const struct host *b)
{
	return (a->turns + a->logins + 1) * (uint64_t)b->weight <
	       (b->turns + b->logins + 1) * (uint64_t)a->weight;
}

static bool is_less_busy(const struct host *a, const struct host *b)
{
	uint64_t x = (uint64_t)(a->connections - a->resting) * (uint64_t)b->weight;
	uint64_t y = (uint64_t)(b->connections - b->resting) * (uint64_t)a->weight;

	return x != y ? x < y : is_owed_more(a, b);
}

/* Of all sites. */
static uint64_t connections_at(const struct host *host)
{
	return host->shared ? (uint64_t)central_read(&host->shared->servers)
			    : host->connections;
}

/* is_to_open: for a connection that is to be opened, not for the next client.  First
 * each host gets one connection.  From then on those count that it has, because while
 * all are busy it is they that divide the clients; and where hosts answer at different
 * speed, one has as much weight as LAG_MAX clients. */
static bool is_before(
    int balance, bool is_to_open, const struct host *a, const struct host *b)
{
	uint64_t x, y;

	if (balance == LOAD_BALANCE_LEAST_CONNECTIONS)
		return is_less_busy(a, b);
	if (!is_to_open)
		return is_owed_more(a, b);
	x = connections_at(a);
	y = connections_at(b);
	if (!x != !y)
		return !x;
	return (a->turns + 1 + x * LAG_MAX) * (uint64_t)b->weight <
	       (b->turns + 1 + y * LAG_MAX) * (uint64_t)a->weight;
}

void hosts_begin_at(struct hosts *hosts, unsigned place)
{
	hosts->draws += (uint64_t)place << 32;
	for (; place; place--) {
		struct host *best = hosts->list[0];
		for (size_t i = 1; i < hosts->count; i++)
			if (is_owed_more(hosts->list[i], best))
				best = hosts->list[i];
		best->turns++;
	}
}

/* Returns a pseudo-random number that depends on how many were drawn before
 * (splitmix64). */
static uint64_t draw(const struct hosts *hosts)
{
	uint64_t x = (hosts->draws + 1) * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static struct host *pick_by_chance(const struct pool *pool)
{
	const struct hosts *hosts = &pool->database->hosts;
	uint64_t sum = 0;

	for (size_t i = 0; i < hosts->count; i++) {
		if (hosts_may_serve(pool, hosts->list[i]))
			sum += (uint64_t)hosts->list[i]->weight;
	}
	uint64_t at = sum ? draw(hosts) % sum : 0;
	for (size_t i = 0; i < hosts->count; i++) {
		struct host *host = hosts->list[i];
		if (!hosts_may_serve(pool, host))
			continue;
		if (at < (uint64_t)host->weight)
			return host;
		at -= (uint64_t)host->weight;
	}
	return NULL;
}

/* Returns the host whose turn it is; NULL: none may serve. */
static struct host *pick(const struct pool *pool, bool is_to_open)
{
	const struct hosts *hosts = &pool->database->hosts;
	int balance = balance_of(pool);
	struct host *best = NULL;

	if (balance == LOAD_BALANCE_RANDOM)
		return pick_by_chance(pool);
	for (size_t i = 0; i < hosts->count; i++) {
		struct host *host = hosts->list[i];
		if (hosts_may_serve(pool, host) &&
		    (!best || is_before(balance, is_to_open, host, best)))
			best = host;
	}
	return best;
}

/* ---- the next connection ---- */

bool hosts_may_open_beside(const struct pool *pool)
{
	const struct list *logins = &pool->slots[SLOT_LOGIN];
	const struct slot *slot;

	if (pool->database->hosts.count < 2 ||
	    balance_of(pool) == LOAD_BALANCE_DISABLE ||
	    pool->waiting.count <= logins->count)
		return false;
	const struct host *host = pick(pool, true);
	list_for (slot, logins, node)
		if (slot->pool_host->host == host)
			return false;
	return host;
}

/* When no host serves: the one that is due first among those that nobody is trying. */
static struct host *first_to_retry(const struct pool *pool)
{
	const struct hosts *hosts = &pool->database->hosts;
	struct host *best = hosts->list[0];

	for (size_t i = 1; i < hosts->count; i++) {
		struct host *host = hosts->list[i];
		if (host_due_us(pool, host) < host_due_us(pool, best))
			best = host;
	}
	return best;
}

/* Returns the next host that serves, beginning with the one in use, or NULL. */
static struct host *next_that_serves(struct pool *pool)
{
	const struct hosts *hosts = &pool->database->hosts;

	for (size_t i = 0; i < hosts->count; i++) {
		size_t at = (pool->balance.next + i) % hosts->count;
		if (!hosts_may_serve(pool, hosts->list[at]))
			continue;
		pool->balance.next = (unsigned)at;
		return hosts->list[at];
	}
	return NULL;
}

struct host *hosts_next(struct pool *pool)
{
	const struct hosts *hosts = &pool->database->hosts;

	if (hosts->count == 1)
		return hosts->list[0];
	bool is_divided = balance_of(pool) != LOAD_BALANCE_DISABLE;
	/* the same host as before, or the next one that serves */
	if (!is_divided && pool->failure.kind)
		pool->balance.next++;
	struct host *host = is_divided ? pick(pool, true) : next_that_serves(pool);
	return host ? host : first_to_retry(pool);
}

/* ---- the next client ---- */

static struct slot *first_clean(const struct list *idle)
{
	struct slot *slot;

	/* dirty slots only exist until pool_next has run */
	list_for (slot, idle, host_node) {
		if (!slot->dirty)
			return slot;
	}
	return NULL;
}

struct slot *hosts_idle_slot(const struct pool *pool)
{
	const struct host *picked = pick(pool, false);
	const struct pool_host *pool_host;
	struct slot *slot, *best = NULL;
	bool best_serves = false;

	list_for (pool_host, &pool->balance.pool_hosts, node) {
		slot = first_clean(&pool_host->idle);
		if (slot && pool_host->host == picked)
			return slot;
		if (!slot)
			continue;
		/* connections to a host that is down may still work; they are lent
		 * last */
		bool may_serve = hosts_may_serve(pool, pool_host->host);
		if (!best || may_serve > best_serves ||
		    (may_serve == best_serves &&
			is_before(balance_of(pool), false, pool_host->host,
			    best->pool_host->host))) {
			best = slot;
			best_serves = may_serve;
		}
	}
	return best;
}

/* ---- connections that nobody waits for ---- */

/* Whether the pool needs another connection to picked, which is so far behind. */
static bool wants_more(struct pool *pool, struct host *picked, uint64_t lag)
{
	struct pool_host *pool_host = hosts_of_pool(pool, picked);

	if (pool_host->slot_count && balance_of(pool) == LOAD_BALANCE_LEAST_CONNECTIONS)
		return false;
	if (lag <= LAG_MAX)
		pool_host->lag_seen = 0;
	if (lag <= pool_host->lag_seen + LAG_MAX)
		return false;
	pool_host->lag_seen = lag;
	return true;
}

static void note_wishes(struct pool *pool, const struct host *lent)
{
	const struct hosts *hosts = &pool->database->hosts;
	struct host *picked = pick(pool, false);
	uint64_t due = picked ? (lent->turns + 1) * (uint64_t)picked->weight /
				    (uint64_t)lent->weight
			      : 0;
	/* by how many clients the host is behind the one that was picked */
	uint64_t lag = picked && due > picked->turns ? due - picked->turns : 0;

	/* the primary has stood in for standbys, and one may be tried again */
	bool stood_in = lent->verdict.is_spare && !hosts_may_serve(pool, lent);

	if (!picked || picked == lent || (!stood_in && !hosts_may_serve(pool, lent)))
		return;
	/* While a connection to it is opened, and so many clients wait that all servers
	 * are always busy, the host falls no further behind than it makes up for soon.
	 */
	if (!stood_in && pool->waiting.count && picked->logins > picked->slow_logins &&
	    lag > LAG_MAX / 4) {
		picked->turns += lag - LAG_MAX / 4;
		return;
	}
	if (stood_in ? picked->logins > 0 : !wants_more(pool, picked, lag))
		return;
	for (size_t i = 0; i < hosts->count; i++)
		if (hosts->list[i] == picked)
			pool->balance.wanted = i + 1;
	pool->balance.wanted_lag = stood_in ? UINT64_MAX : lag;
	pool_schedule(pool);
}

void hosts_assign(struct slot *slot)
{
	struct pool *pool = slot->pool;

	if (!slot->pool_host)
		return;
	struct host *host = slot->pool_host->host;
	if (pool->database->hosts.count > 1 &&
	    (balance_of(pool) != LOAD_BALANCE_DISABLE || host->verdict.is_spare))
		note_wishes(pool, host);
	host->assignments++;
	host->turns++;
	pool->database->hosts.draws++;
}

/* One of several sites has a part of the connections, which may be at some hosts only.
 */
bool hosts_may_replace(const struct pool *pool)
{
	const struct central *central = pool->database->catalog->view.central;

	return pool->balance.wanted_lag > LAG_TO_REPLACE * central->worker_count;
}

bool hosts_may_spare(const struct slot *slot, const struct host *wanted)
{
	const struct host *own = slot->pool_host ? slot->pool_host->host : NULL;
	const struct pool_host *pool_host;

	if (!own || own == wanted)
		return false;
	list_for (pool_host, &slot->pool->balance.pool_hosts, node) {
		if (pool_host->slot_count && pool_host->host != wanted &&
		    is_owed_more(own, pool_host->host))
			return false;
	}
	return true;
}

struct host *hosts_wanted(const struct pool *pool)
{
	const struct hosts *hosts = &pool->database->hosts;

	if (!pool->balance.wanted || pool->balance.wanted > hosts->count)
		return NULL;
	struct host *host = hosts->list[pool->balance.wanted - 1];
	return hosts_may_serve(pool, host) ? host : NULL;
}
