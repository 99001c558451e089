/* links: pool wire auth net conf base */
/*
 * The pools of several workers in one thread: random clients, servers and cancel
 * requests, messages between the workers that arrive in any order but that of each
 * pair, and administrators whose commands reach one worker after the other: PAUSE,
 * RESUME, RECONNECT, KILL, DISABLE, ENABLE, and RELOAD with other limits, databases and
 * servers.  Wherever a worker takes the lock, and before each message, others may act
 * first.  At times one thread stands still, between two events or before a lock, or a
 * view is read, for which no server may be opened or go elsewhere.
 *
 * No limit is exceeded at any moment, what is counted is true, and no server is lent
 * twice, to a pool that is paused or killed, or after a RECONNECT that was meant for
 * it; nor to a client while one of another worker has waited longer than the constant
 * says.  From time to time, and at the end, no new events happen until everything is
 * delivered: then no client waits for a server that rests at any worker that answers,
 * or while there is room for another one, and servers beyond a smaller limit are
 * closed.  In some runs all clients ask again as soon as they were served, and none of
 * them waits for long.  At the end nobody waits, and nothing is on its way.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/map.h"
#include "base/mem.h"
#include "pool/catalog.h"
#include "pool/notes.h"
#include "pool/pool.h"
#include "pool/pool_effective.h"
#include "prop_config.h"

enum {
	RUNS = 150,
	RUSHES = 3, /* every so many runs with an administrator */
	STEPS = 1500,
	PARTS = 4,
	CLIENTS = 24,
	SERVERS = 48,
	KICKS = 64,
	SECOND = 1000000,
	/* A server goes to another worker whose client has waited longer by so much. */
	PREFERENCE_US = 5000,
	/* Longer than any wait for an answer, and than room is left to others, several
	 * times. */
	CALM_US = 1000000,
	/* The same while one worker stands still: to it, room is left in vain, for one
	 * connection after the other. */
	CALM_LONG_US = 3 * CALM_US,
	/* How deep events happen before the lock of another one. */
	DEPTH = 3,
	/* All ask again as soon as they were served: for so long, and so long a client
	 * waits at most, and under the limit of the process. */
	RUSH_US = 12 * SECOND,
	RUSH_WAIT_US = 3 * SECOND,
	RUSH_WAIT_OF_PROCESS_US = 8 * SECOND,
};

static const char *const database_names[] = {"a", "b", "c"};
static const char *const user_names[] = {"u1", "u2"};
enum { DATABASES = 3, USERS = 2, POOLS = DATABASES * USERS };

/* The limits in a snapshot of the configuration; 0: no limit. */
struct limits {
	int sizes[DATABASES], reserves[DATABASES], least[DATABASES], dbs[DATABASES];
	int users[USERS];
	int process;
	int host; /* a change of it means that the servers of b are different ones */
	bool has_no_c;
};

/* Runs without an administrator have one of the first two. */
static const struct limits snapshots[] = {
    {{2, 3, 4}, {0}, {0}, {0, 3, 5}, {4, 0}, 0, 1, false},
    {{2, 3, 4}, {0}, {0}, {0, 3, 5}, {4, 0}, 6, 1, false},
    {{2, 3, 4}, {1, 0, 2}, {0, 2, 0}, {0, 4, 6}, {0, 4}, 0, 2, false},
    {{1, 2, 1}, {0, 1, 1}, {0, 0, 1}, {2, 2, 0}, {3, 2}, 4, 1, false},
    {{3, 1, 1}, {1, 1, 0}, {1, 1, 0}, {3, 0, 0}, {2, 0}, 9, 1, true},
    /* of one kind each */
    {{2, 3, 4}, {0}, {0}, {1, 2, 5}, {0}, 0, 1, false},
    {{2, 3, 4}, {0}, {0}, {0}, {1, 3}, 0, 1, false},
    {{2, 3, 4}, {0}, {0}, {0}, {0}, 4, 1, false},
    /* of two and three kinds */
    {{2, 3, 4}, {0}, {0}, {1, 2, 5}, {1, 3}, 0, 1, false},
    {{2, 3, 4}, {0}, {0}, {1, 2, 5}, {1, 3}, 4, 1, false},
};
enum { SNAPSHOTS = sizeof(snapshots) / sizeof(snapshots[0]), RUSH_SNAPSHOTS = 5 };
static const char ini_format[] = "[pgbouncer]\n"
				 "pool_mode = transaction\n"
				 "server_check_query = %s\n"
				 "server_check_delay = 0\n"
				 "server_login_retry = 1\n"
				 "reserve_pool_timeout = 0.02\n"
				 "max_server_connections = %d\n"
				 "[users]\n"
				 "u1 = max_user_connections=%d\n"
				 "u2 = max_user_connections=%d\n"
				 "[databases]\n";
static const char entry_format[] = "%s = dbname=%s%d pool_size=%d reserve_pool_size=%d "
				   "min_pool_size=%d max_db_connections=%d\n";

struct client {
	struct pool_request request;
	unsigned part;
};

struct server {
	struct slot slot;
	unsigned part, pool; /* where it is or goes to; and the number of its pool */
	bool is_used;        /* it exists, perhaps on its way */
	bool is_handed;      /* it has left its pool but is not on its way yet */
	bool is_closing;     /* it is about to be closed and no longer counts */
	unsigned to;         /* when handed: where it goes */
	struct central_pool *whole; /* when sent: one reference */
	struct slot was;            /* its state when it was sent */
	/* Number of orders that its worker had carried out when the server was opened,
	 * or handed over. */
	unsigned born_round, handed_round;
};

/* MAIL_ORDER is a command of an administrator. */
enum mail_kind { MAIL_NOTE, MAIL_SERVER, MAIL_ORDER };

enum order_kind {
	ORDER_PAUSE,
	ORDER_RESUME,
	ORDER_RECONNECT,
	ORDER_KILL,
	ORDER_DISABLE,
	ORDER_ENABLE,
	ORDER_RELOAD,
	ORDER_KINDS,
};

struct order {
	enum order_kind kind;
	unsigned database; /* DATABASES: all of them */
	unsigned snapshot; /* for RELOAD */
};

struct mail {
	struct node node;
	enum mail_kind kind;
	struct central_note *note;
	struct server *server;
	struct order order;
	unsigned round; /* of an ORDER: its number */
	uint64_t posted_us;
};

struct part {
	struct mem mem;
	struct catalog *c;
	bool is_still; /* its thread stands still */
	bool is_busy;  /* it acts, and has been stopped before the lock */
	struct pool *scheduled[KICKS];
	size_t schedule_count;
	const struct limits *limits; /* the limits in force */
	unsigned round;              /* number of the last order carried out */
	/* Number of the order since which the servers of a database are different
	 * ones. */
	unsigned renewed[DATABASES];
};

/* pool->runner points to it. */
struct runner {
	uint64_t wake_us;
};

static struct fixture {
	uint64_t random, now;
	unsigned parts;
	unsigned orders;
	int cancels; /* connections with a cancel request */
	bool has_administrator;
	bool has_check; /* servers are checked before each use */
	struct config *const *configs;
	struct central *central;
	bool is_locked;
	unsigned depth;      /* how many events happen within each other */
	bool is_interrupted; /* others have acted within this event */
	bool is_calm;        /* no new events happen */
	struct part part[PARTS];
	/* struct mail by .node, from and to; those of administrators come last */
	struct list ways[PARTS + 1][PARTS];
	struct client clients[CLIENTS];
	struct server servers[SERVERS];
	struct counts {
		unsigned grants, dials, hands, closed_for_others, losses, calms;
		unsigned reserves, refills, parks, cancels, outdated, killed, surplus;
		unsigned checks, stops, freezes, replicas, interruptions;
	} counts;
	uint64_t rush_us;    /* when it began */
	uint64_t longest_us; /* that somebody waited in it */
} w;

static unsigned any(unsigned n)
{
	return (unsigned)(random_next(&w.random) >> 16) % n;
}

static unsigned number_of_part(const struct part *part)
{
	return (unsigned)(part - w.part);
}

static unsigned number_of(const struct pool *pool)
{
	unsigned d = 0, u = 0;

	while (strcmp(database_names[d], pool->database->name) != 0)
		d++;
	while (strcmp(user_names[u], pool->user->name) != 0)
		u++;
	return d * USERS + u;
}

static const char *database_of(unsigned pool)
{
	return database_names[pool / USERS];
}

static const char *user_of(unsigned pool)
{
	return user_names[pool % USERS];
}

/* NULL: the database does not exist. */
static struct pool *pool_of(struct part *part, unsigned pool)
{
	struct database *db = catalog_find_database(part->c, database_of(pool));

	return db ? catalog_pool(db, catalog_user(part->c, user_of(pool))) : NULL;
}

static struct part *part_of(const struct pool *pool)
{
	return pool->database->catalog->events_ctx;
}

static struct runner *runner_of(struct pool *pool)
{
	if (!pool->runner) {
		pool->runner = calloc(1, sizeof(struct runner));
		pool->runner->wake_us = UINT64_MAX;
	}
	return pool->runner;
}

static struct server *server_of(struct slot *slot)
{
	return container_of(slot, struct server, slot);
}

/* ---- threads ---- */

/* False: the thread stands still. */
static bool may_enter(struct part *part)
{
	if (part->is_still || part->is_busy)
		return false;
	part->is_busy = true;
	if (w.depth++ == 0)
		w.is_interrupted = false;
	return true;
}

static void leave(struct part *part)
{
	CHECK(part->is_busy && !w.is_locked);
	part->is_busy = false;
	w.depth--;
}

static void check_exceeded(void);
static void happen(void);
static void go_on(void);

/* The lock is about to be taken: others act first, at times for long. */
static void let_others_act(void)
{
	int count = 1 + (int)any(any(200) ? 3 : 100);

	w.is_interrupted = true;
	w.counts.interruptions++;
	for (int i = 0; i < count; i++) {
		if (w.is_calm)
			go_on();
		else
			happen();
	}
	check_exceeded();
}

/* These take the place of libc's, because all workers are in one thread. */
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	(void)mutex;
	CHECK(!w.is_locked);
	if (w.depth > 0 && w.depth <= DEPTH && any(8) == 0)
		let_others_act();
	w.is_locked = true;
	return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	(void)mutex;
	CHECK(w.is_locked);
	w.is_locked = false;
	return 0;
}

/* ---- messages ---- */

static struct mail *post(unsigned from, unsigned to, enum mail_kind kind)
{
	struct mail *mail = calloc(1, sizeof(*mail));

	CHECK(from != to && to < w.parts && !w.is_locked);
	mail->kind = kind;
	mail->round = w.orders;
	mail->posted_us = w.now;
	list_push_back(&w.ways[from][to], &mail->node);
	return mail;
}

/* It leaves its messages unopened, or stands still. */
static bool is_unresponsive(void *ctx, unsigned part)
{
	(void)ctx;
	for (unsigned i = 0; i <= PARTS; i++) {
		struct node *first = list_first(&w.ways[i][part]);
		if (first && container_of(first, struct mail, node)->posted_us +
				     CENTRAL_PATIENCE_US <=
				 w.now)
			return true;
	}
	return false;
}

static void on_schedule(void *ctx, struct pool *pool)
{
	struct part *part = ctx;

	if (pool->is_scheduled)
		return;
	CHECK(part->schedule_count < KICKS);
	pool->is_scheduled = true;
	part->scheduled[part->schedule_count++] = pool;
}

static void on_kill(void *ctx, struct pool *pool, const char *reason)
{
	(void)ctx, (void)reason;
	CHECK(pool->is_killed && w.has_administrator);
	w.counts.killed++;
}

static void on_note(void *ctx, struct central_note *note)
{
	post(number_of_part(ctx), note->worker, MAIL_NOTE)->note = note;
}

static void on_freed(void *ctx, struct pool *pool)
{
	struct part *part = ctx;
	size_t kept = 0;

	for (size_t i = 0; i < part->schedule_count; i++)
		if (part->scheduled[i] != pool)
			part->scheduled[kept++] = part->scheduled[i];
	part->schedule_count = kept;
	free(pool->runner);
	pool->runner = NULL;
}

static const struct catalog_events events = {
    .schedule = on_schedule, .kill = on_kill, .freed = on_freed};

/* ---- checks ---- */

/* Whether it counts against the limits: it is being opened, open, or on its way. */
static bool is_counted(const struct server *s)
{
	return s->is_used && !s->is_closing;
}

struct sums {
	int pools[POOLS], dbs[DATABASES], users[USERS], process;
};

static struct sums count_servers(void)
{
	struct sums sums = {0};

	for (int i = 0; i < SERVERS; i++) {
		const struct server *s = &w.servers[i];
		if (!is_counted(s))
			continue;
		sums.pools[s->pool]++;
		sums.dbs[s->pool / USERS]++;
		sums.users[s->pool % USERS]++;
		/* cancel requests need no room under this limit */
		sums.process += s->slot.state != SLOT_ACTIVE_CANCEL;
	}
	return sums;
}

static bool is_within(int count, int limit)
{
	return limit <= 0 || count <= limit;
}

/* Administrators change limits, and cancel requests need no room. */
static void check_sum(int count, int truth, int limit)
{
	CHECK(count == truth);
	CHECK(w.has_administrator || is_within(truth, limit ? limit + w.cancels : 0));
}

static void check_whole(const struct pool *pool, const struct sums *sums)
{
	const struct limits *l = w.part[0].limits;
	const struct central_pool *whole = pool->part.whole;
	unsigned number = number_of(pool), db = number / USERS, user = number % USERS;
	struct central_limit *const *limits = whole->limits;

	check_sum(whole->servers, sums->pools[number], l->sizes[db]);
	check_sum(limits[CONN_LIMIT_DATABASE]->servers, sums->dbs[db], l->dbs[db]);
	check_sum(limits[CONN_LIMIT_USER]->servers, sums->users[user], l->users[user]);
	check_sum(limits[CONN_LIMIT_PROCESS]->servers, sums->process, l->process);
}

/* Within an event, when a server is just being opened or closed. */
static void check_exceeded(void)
{
	const struct limits *l = w.part[0].limits;
	const struct pool *pool;

	if (w.has_administrator)
		return;
	list_for (pool, &w.part[0].c->pool_list, node) {
		unsigned number = number_of(pool);
		if (!pool->part.whole) /* it is just being made */
			continue;
		struct central_limit *const *limits = pool->part.whole->limits;
		CHECK(is_within(limits[CONN_LIMIT_PROCESS]->servers, l->process));
		CHECK(w.cancels || is_within(limits[CONN_LIMIT_DATABASE]->servers,
				       l->dbs[number / USERS]));
		CHECK(w.cancels || is_within(limits[CONN_LIMIT_USER]->servers,
				       l->users[number % USERS]));
	}
}

/* Compares what others see of the part of one worker with the facts. */
static void check_part(const struct part *part, const struct pool *pool)
{
	const struct central_part *p = &pool->part;
	const struct central_part *listed = p->whole->places[number_of_part(part)].part;

	CHECK(pool->is_killed ? listed != p : listed == p);
	CHECK(p->connected == (int)pool_connected_count(pool));
	CHECK(p->resting ==
	      (int)(pool->slots[SLOT_IDLE].count + pool->slots[SLOT_USED].count));
	CHECK(p->clients == (int)(pool->clients.count + pool->waiting.count));
	CHECK(p->wants_params == !list_is_empty(&pool->param_waiters));
	CHECK(pool->is_killed || pool->is_scheduled || list_is_empty(&pool->waiting) ||
	      p->is_closed == pool_is_paused(pool));
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		CHECK(heap_has(&p->rooms[kind]) == (p->wanted >> kind & 1));
}

/* Those who wait and the servers that are connected or on their way, of a name. */
static void check_totals(const struct central_pool *whole, unsigned number)
{
	int waiting = 0, queued = 0, connected = 0, arriving = 0, on_the_way = 0;

	for (unsigned i = 0; i < w.parts; i++) {
		const struct pool *pool;
		arriving += whole->places[i].arriving;
		list_for (pool, &w.part[i].c->pool_list, node) {
			if (pool->part.whole != whole)
				continue;
			connected += pool->part.connected;
			if (pool->is_killed)
				continue;
			waiting += (int)pool->part.waiters.count;
			queued += (int)pool->waiting.count;
		}
	}
	for (int i = 0; i < SERVERS; i++)
		on_the_way += w.servers[i].is_used && w.servers[i].pool == number &&
			      (w.servers[i].is_handed || w.servers[i].whole);
	CHECK(whole->waiting == waiting && whole->queued == queued);
	CHECK(arriving == on_the_way && whole->connected == connected + on_the_way);
}

static void check_limits(void)
{
	const struct sums sums = count_servers();

	for (unsigned i = 0; i < w.parts; i++) {
		const struct pool *pool;
		list_for (pool, &w.part[i].c->pool_list, node)
			check_whole(pool, &sums);
	}
}

static void check_all(void)
{
	check_limits();
	for (unsigned i = 0; i < w.parts; i++) {
		const struct pool *pool;
		list_for (pool, &w.part[i].c->pool_list, node) {
			check_part(&w.part[i], pool);
			check_totals(pool->part.whole, number_of(pool));
		}
	}
	for (int i = 0; i < CLIENTS; i++) {
		const struct client *c = &w.clients[i];
		CHECK(
		    (c->request.state == REQUEST_LINKED) == (c->request.slot != NULL));
		CHECK(!c->request.slot || c->request.slot->request == &c->request);
	}
	for (int i = 0; i < SERVERS; i++) {
		const struct server *s = &w.servers[i];
		CHECK(!s->slot.request || s->slot.request->slot == &s->slot);
		CHECK(!s->slot.request || s->slot.state == SLOT_ACTIVE ||
		      s->slot.is_replication);
	}
}

/* ---- carrying out verdicts ---- */

static struct server *unused_server(void)
{
	for (int i = 0; i < SERVERS; i++) {
		if (!w.servers[i].is_used) {
			w.servers[i] = (struct server){.is_used = true};
			return &w.servers[i];
		}
	}
	CHECK(!"more servers than ever should be needed");
	return NULL;
}

/* The server is already counted. */
static void check_dial(const struct pool *pool, const struct verdict *v)
{
	const struct limits *l = part_of(pool)->limits;
	unsigned number = number_of(pool), db = number / USERS;
	const struct sums sums = count_servers();
	int count = sums.pools[number];

	CHECK(!pool_is_paused(pool) && !pool->is_killed);
	w.counts.reserves += v->is_reserve;
	w.counts.refills += list_is_empty(&pool->waiting);
	/* others may be about to open or close some */
	if (w.is_interrupted)
		return;
	CHECK(is_within(sums.dbs[db], l->dbs[db]));
	CHECK(is_within(sums.users[number % USERS], l->users[number % USERS]));
	CHECK(is_within(sums.process, l->process));
	CHECK(is_within(count, l->sizes[db] + (v->is_reserve ? l->reserves[db] : 0)));
	/* one may be opened to see whether another attempt fails as well */
	CHECK(!list_is_empty(&pool->waiting) || count <= l->least[db] ||
	      pool->failure.kind);
}

static void dial(struct part *part, struct pool *pool, const struct verdict *v)
{
	struct server *s = unused_server();

	CHECK(v->is_replication == (v->request != NULL));
	s->slot.is_replication = v->is_replication;
	s->slot.request = v->request;
	w.counts.replicas += v->is_replication;
	s->part = number_of_part(part);
	s->pool = number_of(pool);
	s->born_round = part->round;
	check_dial(pool, v);
	pool_dialing(pool, &s->slot, w.now);
	w.counts.dials++;
}

static void close_server(struct server *s)
{
	struct pool *pool = s->slot.pool;

	bool is_cancel = s->slot.state == SLOT_ACTIVE_CANCEL;
	s->is_closing = true;
	pool_gone(&s->slot, w.now);
	w.cancels -= is_cancel;
	s->is_used = s->is_handed = false;
	pool_free_if_unused(pool);
}

/* Has this client waited so long that it comes before one that waits since then, as far
 * as its worker knows? */
static bool comes_before(const struct client *c, uint64_t since_us)
{
	const struct pool_request *request = &c->request;
	unsigned kinds = 1u << REQUEST_QUERY | 1u << REQUEST_AUTH;

	return request->state == REQUEST_WAITING && kinds >> request->kind & 1 &&
	       request->queued_us + PREFERENCE_US < since_us &&
	       !request->pool->is_killed && !request->pool->part.is_closed &&
	       !is_unresponsive(NULL, c->part) &&
	       !request->pool->part.whole->places[c->part].arriving;
}

/* Before the lock of this event others may have begun to wait, or ceased to. */
static void check_order(const struct pool_request *served, unsigned pool)
{
	uint64_t since_us = served->queued_us ? served->queued_us : w.now;

	for (int i = 0; i < CLIENTS; i++) {
		const struct client *c = &w.clients[i];
		if (c->request.pool && number_of(c->request.pool) == pool)
			CHECK(!comes_before(c, since_us));
	}
}

static void check_grant(const struct verdict *v)
{
	const struct server *s = server_of(v->slot);

	CHECK(s->is_used && !s->is_handed && !s->is_closing);
	CHECK(v->slot->state == SLOT_ACTIVE && v->slot->request == v->request);
	CHECK(v->request->state == REQUEST_LINKED && v->request->slot == v->slot);
	CHECK(container_of(v->request, struct client, request)->part == s->part);
	CHECK(!v->slot->is_dirty && !v->slot->cancels_in_flight);
	CHECK(!v->slot->pool->is_killed);
	CHECK(v->slot->is_replication || !pool_is_paused(v->slot->pool));
	CHECK(s->born_round >= w.part[s->part].renewed[s->pool / USERS]);
	if (!w.is_interrupted && !v->slot->is_replication &&
	    !central_is_frozen(w.central))
		check_order(v->request, s->pool);
	w.counts.grants++;
}

static void carry(struct part *part, struct pool *pool, const struct verdict *v)
{
	switch (v->kind) {
	case VERDICT_GRANT:
		check_grant(v);
		break;
	case VERDICT_DIAL:
		dial(part, pool, v);
		break;
	case VERDICT_RETIRE:
		server_of(v->slot)->is_closing = true;
		w.counts.closed_for_others += strcmp(v->text, "evicted") == 0;
		w.counts.surplus += strncmp(v->text, "too many servers", 16) == 0;
		break;
	case VERDICT_HAND:
		CHECK(v->site < w.parts && v->site != number_of_part(part));
		CHECK(!v->slot->request && v->slot->state == SLOT_NONE);
		CHECK(!v->slot->is_dirty && !v->slot->cancels_in_flight);
		server_of(v->slot)->is_handed = true;
		server_of(v->slot)->handed_round = part->round;
		server_of(v->slot)->to = v->site;
		break;
	case VERDICT_ADMIT:
		CHECK(w.is_interrupted || pool_has_login_params(pool));
		v->request->is_logged_in = true;
		break;
	case VERDICT_CHECK:
		CHECK(w.has_check && v->slot->state == SLOT_TESTED);
		w.counts.checks++;
		break;
	case VERDICT_RESET:
	case VERDICT_PREPARE:
		CHECK(v->slot->state == SLOT_TESTED);
		break;
	case VERDICT_PARK:
		CHECK(v->slot->state == SLOT_BEING_CANCELED);
		w.counts.parks++;
		break;
	case VERDICT_REFUSE: /* the last connection has failed, or the pool is killed */
		CHECK(v->request->state == REQUEST_RESTING);
		break;
	case VERDICT_REST:
	case VERDICT_WAIT:
	case VERDICT_NONE:
		break;
	}
}

static void serve(struct part *part, struct pool *pool)
{
	struct verdict v;

	runner_of(pool)->wake_us = UINT64_MAX;
	for (unsigned steps = 0;; steps++) {
		CHECK(steps < 2 * (CLIENTS + SERVERS));
		v = pool_next(pool, w.now);
		if (v.kind == VERDICT_NONE)
			break;
		carry(part, pool, &v);
		if (!w.is_interrupted)
			check_limits();
	}
	CHECK(v.wake_us > w.now || w.is_interrupted);
	pool->runner->wake_us = v.wake_us;
}

static void serve_scheduled(struct part *part, size_t i)
{
	struct pool *pool = part->scheduled[i];

	if (!may_enter(part))
		return;
	memmove(&part->scheduled[i], &part->scheduled[i + 1],
	    (--part->schedule_count - i) * sizeof(part->scheduled[0]));
	pool->is_scheduled = false;
	serve(part, pool);
	leave(part);
}

static void serve_woken(struct part *part)
{
	struct pool *pool, *after;

	if (!may_enter(part))
		return;
	list_for_safe (pool, after, &part->c->pool_list, node)
		if (runner_of(pool)->wake_us <= w.now)
			serve(part, pool);
	leave(part);
}

/* ---- messages arrive ---- */

static void hear(struct part *part, struct central_note *note)
{
	struct verdict v = notes_hear(part->c, note, w.now);

	carry(part, v.slot ? v.slot->pool : NULL, &v);
	central_note_free(note);
}

static void take_server(struct part *part, struct server *s)
{
	struct pool *pool = pool_of(part, s->pool);
	struct central_pool *whole = s->whole;
	bool is_outdated = s->handed_round < part->round;
	struct verdict v;

	if (!pool || any(20) == 0) {
		s->is_used = false;
		s->whole = NULL;
		notes_lost(part->c, whole);
		central_pool_unref(&part->c->view, &whole);
		w.counts.losses++;
		return;
	}
	/* the order could not reach it on its way */
	s->was.is_dirty |= is_outdated;
	w.counts.outdated += is_outdated;
	s->part = number_of_part(part);
	s->slot = (struct slot){.state = SLOT_NONE};
	pool_move_in(pool, &s->slot, NULL, &s->was, NULL, 5432, w.now);
	s->whole = NULL;
	central_pool_unref(&part->c->view, &whole);
	v = pool_review(&s->slot, w.now);
	carry(part, pool, &v);
}

/* ---- orders ---- */

static void adopt(struct part *part, unsigned snapshot, unsigned round)
{
	const struct limits *before = part->limits;

	part->limits = &snapshots[snapshot];
	catalog_adopt(part->c, w.configs[snapshot], NULL, NULL, NULL);
	if (before->host != part->limits->host)
		part->renewed[1] = round;
	if (before->has_no_c != part->limits->has_no_c)
		part->renewed[2] = round;
	for (int i = 0; i < SERVERS; i++) {
		struct server *s = &w.servers[i];
		if (!s->is_used || !s->slot.pool || s->part != number_of_part(part))
			continue;
		struct verdict v = pool_review(&s->slot, w.now);
		carry(part, s->slot.pool, &v);
	}
}

static void renew(struct part *part, unsigned database, unsigned round)
{
	for (unsigned i = 0; i < DATABASES; i++)
		if (database == DATABASES || i == database)
			part->renewed[i] = round;
}

/* db NULL: all databases. */
static void order_at(struct part *part, struct database *db, const struct mail *mail)
{
	struct catalog *c = part->c;

	switch (mail->order.kind) {
	case ORDER_PAUSE:
	case ORDER_RESUME:
		*(db ? &db->paused : &c->paused) = mail->order.kind == ORDER_PAUSE;
		catalog_schedule_all(c, db);
		break;
	case ORDER_RECONNECT:
		catalog_mark_dirty(c, db);
		renew(part, mail->order.database, mail->round);
		break;
	case ORDER_KILL:
		catalog_kill(c, db, "killed");
		renew(part, mail->order.database, mail->round);
		break;
	case ORDER_DISABLE:
	case ORDER_ENABLE:
		if (db)
			db->disabled = mail->order.kind == ORDER_DISABLE;
		break;
	case ORDER_RELOAD:
		adopt(part, mail->order.snapshot, mail->round);
		break;
	case ORDER_KINDS:
		break;
	}
}

static void carry_out(struct part *part, const struct mail *mail)
{
	unsigned number = mail->order.database;
	struct database *db =
	    number < DATABASES ? catalog_find_database(part->c, database_names[number])
			       : NULL;

	CHECK(part->round + 1 == mail->round);
	part->round = part->c->view.broadcast = mail->round;
	if (db || number == DATABASES)
		order_at(part, db, mail);
}

/* The command reaches one worker after the other. */
static void command(enum order_kind kind, unsigned database, unsigned snapshot)
{
	/* KILL of all databases is one KILL for each */
	for (unsigned i = 1;
	     kind == ORDER_KILL && database == DATABASES && i < database; i++)
		command(kind, i, 0);
	if (kind == ORDER_KILL && database == DATABASES)
		database = 0;
	if (kind == ORDER_RELOAD)
		database = DATABASES;
	w.orders++;
	for (unsigned i = 0; i < w.parts; i++)
		post(PARTS, i, MAIL_ORDER)->order =
		    (struct order){kind, database, snapshot};
}

static void administrator_acts(void)
{
	command((enum order_kind)any(ORDER_KINDS), any(DATABASES + 1), any(SNAPSHOTS));
}

/* Undoes everything that the administrator has done. */
static void administrator_leaves(void)
{
	for (unsigned i = 0; w.has_administrator && i <= DATABASES; i++) {
		command(ORDER_ENABLE, i, 0);
		command(ORDER_RESUME, i, 0);
	}
	if (w.has_administrator)
		command(ORDER_RELOAD, DATABASES, 0);
}

static void open_mail(struct part *part, const struct mail *mail)
{
	switch (mail->kind) {
	case MAIL_NOTE:
		hear(part, mail->note);
		break;
	case MAIL_SERVER:
		take_server(part, mail->server);
		break;
	case MAIL_ORDER:
		carry_out(part, mail);
		break;
	}
}

static void deliver(unsigned from, unsigned to)
{
	struct node *first = list_first(&w.ways[from][to]);

	if (!first || !may_enter(&w.part[to]))
		return;
	list_remove(&w.ways[from][to], first);
	struct mail *mail = container_of(first, struct mail, node);
	open_mail(&w.part[to], mail);
	free(mail);
	leave(&w.part[to]);
}

static void send_off(struct server *s)
{
	struct pool *pool = s->slot.pool;

	CHECK(s->is_handed);
	if (any(20) == 0) {
		/* it cannot be sent, so it is closed */
		close_server(s);
		w.counts.losses++;
		return;
	}
	s->whole = central_pool_ref(&part_of(pool)->c->view, pool->part.whole);
	s->is_handed = false;
	s->was = s->slot;
	s->was.state = s->slot.carried_as;
	s->was.is_carried = true;
	pool_carried(&s->slot);
	pool_gone(&s->slot, w.now);
	pool_free_if_unused(pool);
	post(s->part, s->to, MAIL_SERVER)->server = s;
	w.counts.hands++;
}

/* ---- what clients and servers do ---- */

static void client_comes(struct client *c, struct part *part)
{
	static const enum request_kind kinds[] = {REQUEST_QUERY, REQUEST_QUERY,
	    REQUEST_QUERY, REQUEST_QUERY, REQUEST_QUERY, REQUEST_QUERY, REQUEST_PARAMS,
	    REQUEST_PARAMS, REQUEST_REPLICATION};
	struct pool *pool = pool_of(part, any(POOLS));
	struct verdict v;

	/* meanwhile it may have come to another worker */
	if (c->request.state != REQUEST_OUTSIDE || !pool || pool->database->disabled)
		return;
	c->part = number_of_part(part);
	c->request = (struct pool_request){.is_logged_in = true};
	pool_join(pool, &c->request);
	c->request.last_us = c->request.query_us = w.now;
	v = pool_ask(&c->request, kinds[any(sizeof(kinds) / sizeof(kinds[0]))], w.now);
	carry(part, c->request.pool, &v);
}

static void client_goes(struct client *c)
{
	struct pool *pool = c->request.pool;

	pool_part(&c->request);
	if (pool)
		pool_free_if_unused(pool);
}

static void give_back(struct server *s)
{
	struct part *part = &w.part[s->part];
	struct pool *pool = s->slot.pool;

	s->slot.needs_reset = any(10) == 0;
	struct verdict v = pool_give(&s->slot, w.now);

	carry(part, pool, &v);
}

static void client_asks(struct client *c)
{
	c->request.last_us = c->request.query_us = w.now;
	struct verdict v = pool_ask(&c->request, REQUEST_QUERY, w.now);
	carry(&w.part[c->part], c->request.pool, &v);
}

static void client_acts(struct client *c, bool is_patient)
{
	bool is_outside = c->request.state == REQUEST_OUTSIDE;
	struct part *part = &w.part[is_outside ? any(w.parts) : c->part];

	if (!may_enter(part))
		return;
	if (is_outside)
		client_comes(c, part);
	else if (c->request.state == REQUEST_RESTING && any(2))
		client_goes(c);
	else if (c->request.state == REQUEST_RESTING)
		client_asks(c);
	else if (c->request.state == REQUEST_WAITING && !is_patient)
		client_goes(c);
	/* that of a replication client may still be connecting */
	else if (c->request.state == REQUEST_LINKED &&
		 c->request.slot->state == SLOT_ACTIVE)
		give_back(server_of(c->request.slot));
	leave(part);
}

static void logs_in(struct server *s)
{
	struct pool *pool = s->slot.pool;

	/* what the server of a replication client reports is its client's */
	if (!pool_has_login_params(pool) && !s->slot.is_replication)
		pool_got_login_params(pool);
	struct verdict v = pool_logged_in(&s->slot, w.now);
	carry(&w.part[s->part], pool, &v);
}

/* A connection that carries a cancel request begins: a new one, or one that was being
 * opened. */
static void cancel_begins(struct server *target)
{
	struct pool *pool = target->slot.pool;
	struct part *part = &w.part[target->part];

	if (!target->is_used || !pool || target->is_closing || target->is_handed ||
	    !may_enter(part))
		return;
	if (pool_may_dial_cancel(pool) && target->slot.state == SLOT_LOGIN &&
	    !target->slot.request) {
		w.cancels++;
		w.counts.cancels++;
		pool_dialing_cancel(pool, &target->slot, w.now);
	} else if (pool_may_dial_cancel(pool) && target->slot.state == SLOT_ACTIVE) {
		struct server *s = unused_server();
		s->part = target->part;
		s->pool = target->pool;
		w.cancels++;
		w.counts.cancels++;
		pool_dialing_cancel(pool, &s->slot, w.now);
		target->slot.cancels_in_flight++;
	}
	leave(part);
}

static void login_ends(struct server *s, bool is_lucky)
{
	if (s->slot.pool->is_killed) {
		s->is_closing = true;
		close_server(s);
		return;
	}
	if (is_lucky || any(8)) {
		logs_in(s);
		return;
	}
	s->is_closing = true;
	pool_dial_failed(&s->slot, DIAL_NETWORK, "connect failed", "08006", w.now);
}

/* Lets the server take its next step.  False: it has none, but may still die. */
static bool has_stepped(struct server *s, bool is_lucky)
{
	struct pool *pool = s->slot.pool;
	struct verdict v = {.kind = VERDICT_NONE};

	if (s->is_handed)
		send_off(s);
	else if (s->is_closing || s->slot.state == SLOT_ACTIVE_CANCEL)
		close_server(s);
	else if (s->slot.state == SLOT_LOGIN)
		login_ends(s, is_lucky);
	else if (s->slot.cancels_in_flight)
		v = pool_cancel_done(&s->slot, w.now);
	else if (s->slot.state == SLOT_TESTED)
		v = pool_tested(&s->slot, w.now);
	else
		return false;
	carry(&w.part[s->part], pool, &v);
	return true;
}

/* is_mortal: a server with nothing else to do may die. */
static bool has_acted(struct server *s, bool is_lucky, bool is_mortal)
{
	struct part *part = &w.part[s->part];

	if (!s->is_used || !s->slot.pool || !may_enter(part))
		return false;
	bool has = has_stepped(s, is_lucky);
	if (!has && is_mortal && any(40) == 0)
		close_server(s);
	leave(part);
	return has;
}

/* Closes clients and servers of killed pools, and servers that clients of such pools
 * have.  What is on its way to another worker continues. */
static bool has_buried_one(void)
{
	for (int i = 0; i < SERVERS; i++) {
		struct server *s = &w.servers[i];
		struct part *part = &w.part[s->part];
		if (s->is_used && s->slot.pool && s->slot.pool->is_killed &&
		    !s->is_handed && may_enter(part)) {
			close_server(s);
			leave(part);
			return true;
		}
	}
	for (int i = 0; i < CLIENTS; i++) {
		struct client *c = &w.clients[i];
		struct part *part = &w.part[c->part];
		if (c->request.pool && c->request.pool->is_killed &&
		    c->request.state != REQUEST_LINKED && may_enter(part)) {
			client_goes(c);
			leave(part);
			return true;
		}
	}
	return false;
}

static void freeze(bool is_frozen)
{
	central_freeze(w.central, is_frozen);
	w.counts.freezes += is_frozen;
}

/* One thread stands still, or all go on. */
static void stop_one(void)
{
	for (unsigned i = 0; i < w.parts; i++) {
		if (w.part[i].is_still) {
			w.part[i].is_still = false;
			return;
		}
	}
	w.part[any(w.parts)].is_still = true;
	w.counts.stops++;
}

static void happen(void)
{
	struct part *part = &w.part[any(w.parts)];

	if (any(150) == 0)
		stop_one();
	if (any(central_is_frozen(w.central) ? 10 : 200) == 0)
		freeze(!central_is_frozen(w.central));

	if (w.has_administrator && any(120) == 0)
		administrator_acts();
	/* usually the administrator undoes it soon */
	if (w.has_administrator && any(80) == 0)
		command(any(2) ? ORDER_RESUME : ORDER_ENABLE, any(DATABASES + 1), 0);
	switch (any(11)) {
	case 0:
	case 1:
	case 2:
		client_acts(&w.clients[any(CLIENTS)], any(10) != 0);
		break;
	case 3:
	case 4:
		(void)has_acted(&w.servers[any(SERVERS)], false, true);
		break;
	case 5:
	case 6:
		deliver(any(w.parts), any(w.parts));
		if (any(3) == 0)
			deliver(PARTS, any(w.parts));
		break;
	case 7:
		if (part->schedule_count)
			serve_scheduled(part, any((unsigned)part->schedule_count));
		break;
	case 8:
		w.now += any(8) ? any(3000) : any(50000);
		break;
	case 9:
		if (any(4) == 0)
			cancel_begins(&w.servers[any(SERVERS)]);
		else
			(void)has_buried_one();
		break;
	default:
		serve_woken(part);
		break;
	}
}

/* ---- calm ---- */

/* While it is calm: something that is due happens. */
static void go_on(void)
{
	struct part *part = &w.part[any(w.parts)];

	switch (any(3)) {
	case 0:
		deliver(any(w.parts), any(w.parts));
		break;
	case 1:
		if (part->schedule_count)
			serve_scheduled(part, any((unsigned)part->schedule_count));
		break;
	default:
		(void)has_acted(&w.servers[any(SERVERS)], true, false);
		break;
	}
}

/* Delivers everything that is on its way. */
static bool has_settled_once(void)
{
	bool is_still = true;

	for (unsigned i = 0; i < w.parts; i++) {
		if (w.part[i].is_still || w.part[i].is_busy)
			continue;
		for (; w.part[i].schedule_count; is_still = false)
			serve_scheduled(&w.part[i], 0);
		for (unsigned k = 0; k <= PARTS; k++)
			for (; !list_is_empty(&w.ways[k][i]); is_still = false)
				deliver(k, i);
	}
	for (int i = 0; i < SERVERS; i++)
		if (has_acted(&w.servers[i], true, false))
			is_still = false;
	while (has_buried_one())
		is_still = false;
	check_all();
	return is_still;
}

static void settle(void)
{
	for (unsigned i = 0; !has_settled_once(); i++)
		CHECK(i < 1000);
}

static void pass(uint64_t us)
{
	for (uint64_t end = w.now + us; w.now < end; w.now += 1000) {
		settle();
		for (unsigned i = 0; i < w.parts; i++)
			serve_woken(&w.part[i]);
	}
	settle();
}

static bool is_anybody_waiting(void)
{
	for (int i = 0; i < CLIENTS; i++)
		if (w.clients[i].request.state == REQUEST_WAITING)
			return true;
	return false;
}

static bool is_anybody_still(void)
{
	for (unsigned i = 0; i < w.parts; i++)
		if (w.part[i].is_still)
			return true;
	return false;
}

/* Clients have waited longer than reserve_pool_timeout; a replication client that is
 * the first gets nothing of the reserve. */
static bool has_room(const struct pool *pool)
{
	const struct pool_request *first =
	    container_of(list_first(&pool->waiting), struct pool_request, node);
	const struct limits *l = part_of(pool)->limits;
	unsigned number = number_of(pool), db = number / USERS;
	const struct sums sums = count_servers();

	int reserve = first->kind == REQUEST_REPLICATION ? 0 : l->reserves[db];

	return is_within(sums.pools[number] + 1, l->sizes[db] + reserve) &&
	       is_within(sums.dbs[db] + 1, l->dbs[db]) &&
	       is_within(sums.users[number % USERS] + 1, l->users[number % USERS]) &&
	       is_within(sums.process + 1, l->process);
}

/* No client may wait for something that is available. */
static void check_waiting(const struct pool *pool)
{
	if (list_is_empty(&pool->waiting) || pool_is_paused(pool))
		return;
	CHECK(!pool->is_killed);
	/* clients that wait for the login parameters need no server that another worker
	 * has */
	CHECK(list_is_empty(&pool->param_waiters) || !pool_has_login_params(pool));
	/* a resting server does not help a replication client, but gives way to its own
	 */
	bool may_rest = list_is_empty(&pool->part.waiters) && pool->failure.kind;
	CHECK(may_rest || list_is_empty(&pool->slots[SLOT_IDLE]));
	for (unsigned i = 0; i < w.parts; i++) {
		const struct central_place *place = &pool->part.whole->places[i];
		CHECK(may_rest || !place->part || w.part[i].is_still ||
		      !place->part->resting);
		CHECK(is_anybody_still() || !place->arriving);
	}
	CHECK(pool->failure.kind || !has_room(pool));
}

/* There must be no more resting servers than the limits in force allow. */
static void check_surplus(const struct pool *pool)
{
	const struct limits *l = part_of(pool)->limits;
	unsigned number = number_of(pool), db = number / USERS;
	const struct sums sums = count_servers();

	/* a worker that stands still cannot close any */
	if (list_is_empty(&pool->slots[SLOT_IDLE]) || is_anybody_still())
		return;
	CHECK(!pool_is_closing_for_pause(pool) && !pool->is_killed);
	CHECK(is_within(sums.pools[number], l->sizes[db] + l->reserves[db]));
	CHECK(is_within(sums.process, l->process));
}

static void check_calm(void)
{
	for (unsigned i = 0; i < w.parts; i++) {
		struct pool *pool;
		if (w.part[i].is_still)
			continue;
		CHECK(w.part[i].round == w.orders);
		list_for (pool, &w.part[i].c->pool_list, node) {
			check_waiting(pool);
			check_surplus(pool);
		}
	}
	w.counts.calms++;
}

static void check_patience(const struct pool_request *request)
{
	uint64_t most_us =
	    w.part[0].limits->process ? RUSH_WAIT_OF_PROCESS_US : RUSH_WAIT_US;
	/* before the rush nobody may have given a server back */
	uint64_t since_us =
	    request->queued_us > w.rush_us ? request->queued_us : w.rush_us;
	/* other workers with clients of the pool do not give way to a replication
	 * client */
	bool is_served =
	    request->state != REQUEST_WAITING || request->kind == REQUEST_REPLICATION;
	uint64_t waited_us = is_served ? 0 : w.now - since_us;

	CHECK(waited_us <= most_us);
	if (waited_us > w.longest_us)
		w.longest_us = waited_us;
}

/* Nobody starves while others never pause, also where limits of several kinds have to
 * have room at once. */
static void everybody_is_busy(void)
{
	command(ORDER_RELOAD, DATABASES, SNAPSHOTS - 1 - any(RUSH_SNAPSHOTS));
	pass(CALM_US);
	w.rush_us = w.now;
	while (w.now < w.rush_us + RUSH_US) {
		pass(1000);
		for (int i = 0; i < CLIENTS; i++) {
			struct client *c = &w.clients[i];
			check_patience(&c->request);
			if (c->request.state == REQUEST_OUTSIDE ||
			    (c->request.state == REQUEST_LINKED && any(20) == 0))
				client_acts(c, true);
			if (c->request.state == REQUEST_RESTING)
				client_asks(c);
		}
	}
}

static void everybody_is_served(void)
{
	for (int i = 0; is_anybody_waiting(); i++) {
		CHECK(i < 2000);
		for (int k = 0; k < CLIENTS; k++) {
			struct client *c = &w.clients[k];
			if (c->request.state == REQUEST_LINKED)
				give_back(server_of(c->request.slot));
			if (c->request.state == REQUEST_RESTING)
				client_goes(c);
		}
		pass(10000);
	}
}

/* ---- runs ---- */

static struct config *load(const struct limits *l, bool has_check)
{
	struct buf ini;

	buf_init(&ini, 0);
	buf_printf(&ini, ini_format, has_check ? "select 1" : "", l->process,
	    l->users[0], l->users[1]);
	for (int i = 0; i < DATABASES - l->has_no_c; i++)
		buf_printf(&ini, entry_format, database_names[i], database_names[i],
		    i == 1 ? l->host : 0, l->sizes[i], l->reserves[i], l->least[i],
		    l->dbs[i]);
	struct config *config = prop_config(buf_text(&ini));
	buf_done(&ini);
	return config;
}

static void begin(uint64_t seed, struct config *const *configs)
{
	unsigned first = seed % 2;

	memset(&w, 0, sizeof(w));
	w.random = seed * 0x9e3779b97f4a7c15u + 1;
	w.now = 1000 * (uint64_t)SECOND;
	w.parts = 2 + any(PARTS - 1);
	w.has_administrator = seed % 4 > 1;
	w.has_check = any(3) == 0;
	w.configs = configs += w.has_check ? SNAPSHOTS : 0;
	w.central = central_new(w.parts);
	central_on_unresponsive(w.central, is_unresponsive, NULL);
	for (unsigned i = 0; i <= PARTS; i++)
		for (unsigned k = 0; k < PARTS; k++)
			list_init(&w.ways[i][k]);
	for (unsigned i = 0; i < w.parts; i++) {
		struct part *part = &w.part[i];
		mem_init(&part->mem);
		part->c = catalog_new(&part->mem);
		part->c->events = &events;
		part->c->events_ctx = part;
		part->limits = &snapshots[first];
		catalog_share(part->c, w.central, i);
		part->c->view.post = on_note;
		part->c->view.post_ctx = part;
		catalog_adopt(part->c, configs[first], NULL, NULL, NULL);
	}
}

static void end(void)
{
	for (int i = 0; i < SERVERS; i++) {
		struct server *s = &w.servers[i];
		if (!s->is_used)
			continue;
		/* it must be in a pool, not lost */
		CHECK(s->slot.pool && !s->is_handed);
		close_server(s);
	}
	for (int i = 0; i < CLIENTS; i++)
		client_goes(&w.clients[i]);
	check_all();
	for (unsigned i = 0; i < w.parts; i++) {
		for (unsigned k = 0; k < w.parts; k++)
			while (!list_is_empty(&w.ways[i][k]))
				deliver(i, k);
	}
	for (unsigned i = 0; i < w.parts; i++) {
		catalog_free(&w.part[i].c);
		CHECK(list_is_empty(&w.part[i].mem.slabs));
	}
	CHECK(map_count(w.central->by_name) == 0);
	central_free(&w.central);
}

static void run(void)
{
	for (step_number = 1; step_number <= STEPS; step_number++) {
		happen();
		check_all();
		if (any(100) == 0) {
			freeze(false);
			w.is_calm = true;
			pass(is_anybody_still() ? CALM_LONG_US : CALM_US);
			check_calm();
			w.is_calm = false;
		}
	}
	freeze(false);
	w.is_calm = true;
	for (unsigned i = 0; i < w.parts; i++)
		w.part[i].is_still = false;
	administrator_leaves();
	pass(1000);
	if (w.has_administrator && any(RUSHES) == 0)
		everybody_is_busy();
	everybody_is_served();
	pass(CALM_US);
	check_calm();
	end();
}

static void add_counts(struct counts *sums)
{
	const unsigned *from = (const unsigned *)&w.counts;
	unsigned *to = (unsigned *)sums;

	for (size_t i = 0; i < sizeof(*sums) / sizeof(*to); i++)
		to[i] += from[i];
}

/* The test proves something only if enough has happened. */
static bool has_enough_happened(const struct counts *c)
{
	const unsigned *count = (const unsigned *)c;

	for (size_t i = 0; i < sizeof(*c) / sizeof(*count); i++)
		if (!count[i])
			return false;
	return c->grants > RUNS && c->dials > RUNS && c->hands > RUNS;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
	struct config *configs[2 * SNAPSHOTS];
	struct counts c = {0};
	uint64_t longest_us = 0;

	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	for (int i = 0; i < 2 * SNAPSHOTS; i++)
		configs[i] = load(&snapshots[i % SNAPSHOTS], i >= SNAPSHOTS);
	for (run_number = 0; run_number < RUNS; run_number++) {
		begin(seed * RUNS + run_number, configs);
		run();
		add_counts(&c);
		longest_us = w.longest_us > longest_us ? w.longest_us : longest_us;
	}
	printf(
	    "%u grants, %u dials, %u of the reserve, %u for min_pool_size, %u handed "
	    "over, %u closed for others, %u lost on the way, %u outdated on the way, "
	    "%u too many, %u cancels, %u parked, %u pools killed, %u checks, %u "
	    "threads stopped, %u views read, %u for replication, %u interruptions, %u "
	    "times calm\n",
	    c.grants, c.dials, c.reserves, c.refills, c.hands, c.closed_for_others,
	    c.losses, c.outdated, c.surplus, c.cancels, c.parks, c.killed, c.checks,
	    c.stops, c.freezes, c.replicas, c.interruptions, c.calms);
	printf("longest wait while all are busy: %" PRIu64 " ms\n", longest_us / 1000);
	for (int i = 0; i < 2 * SNAPSHOTS; i++)
		config_unref(&configs[i]);
	return has_enough_happened(&c) ? 0 : 1;
}
