/*
 * The model of the pools of one process: its workers with their clients and servers,
 * all in one thread, as the files of prop_pool share it.
 */
#ifndef TEST_PROP_POOL_MODEL_H
#define TEST_PROP_POOL_MODEL_H

#include <inttypes.h>
#include <string.h>

#include "../prop_config.h"
#include "base/mem.h"
#include "pool/catalog.h"
#include "pool/hosts_role.h"
#include "pool/notes.h"
#include "pool/pool.h"
#include "pool/pool_effective.h"

enum {
	WORKERS = 4,
	CLIENTS = 40,
	SERVERS = 128,
	DATABASES = 7,
	USERS = 4,
	POOLS = DATABASES * USERS,
	SCHEDULED = 64,
	SECOND = 1000000,
	/* Longer than room is left to others. */
	COURTESY = SECOND / 5,
};

struct client {
	struct pool_request request;
	struct database *database;
	unsigned worker;
	uint64_t turn; /* counts up with each request of any client */
};

struct server {
	struct slot slot;
	unsigned worker, pool; /* where it is or goes to; and the number of its pool */
	bool is_used;          /* it exists, perhaps on its way */
	bool is_lent;
	bool is_handed;             /* it has left its pool but is not on its way yet */
	bool is_closing;            /* it is about to be closed and no longer counts */
	unsigned to;                /* when handed: where it goes */
	struct central_pool *whole; /* when sent: one reference */
	struct slot was;            /* its state when it was sent */
	uint64_t review_us;         /* when pool_review is due */
	/* Number of orders that its worker had carried out when the server was opened,
	 * or handed over. */
	unsigned born_round, handed_round;
};

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

/* A command of an administrator. */
struct order {
	enum order_kind kind;
	unsigned database;     /* DATABASES: all of them */
	bool refuses_waiting;  /* with PAUSE: clients that wait are refused */
	bool suspends;         /* instead of pausing */
	struct config *config; /* for RELOAD: one reference for each worker */
	unsigned renewed; /* for RELOAD: databases whose servers are different ones */
};

/* pool->runner points to it. */
struct runner {
	uint64_t wake_us;
	bool looks_soon;
};

struct worker {
	struct mem mem;
	struct catalog *c;
	bool is_still; /* its thread stands still */
	bool is_busy;  /* it acts, and has been stopped before the lock */
	struct pool *scheduled[SCHEDULED];
	size_t schedule_count;
	unsigned round; /* number of the last order carried out */
	/* Number of the order since which the servers of a database are different
	 * ones. */
	unsigned renewed[DATABASES];
};

/* With one worker everything that is due happens after each event, so that the checks
 * are exact; with several, events happen in any order and within each other. */
struct fixture {
	uint64_t random, now, turns;
	unsigned workers, clients, databases, users;
	unsigned orders;
	int cancels; /* connections with a cancel request */
	bool has_administrator;
	bool has_check; /* servers are checked before each use */
	bool is_plain;  /* the only limits are sizes and max_server_connections */
	struct central *central;
	bool is_locked;
	unsigned depth;      /* how many events happen within each other */
	bool is_interrupted; /* others have acted within this event */
	bool is_calm;        /* no new events happen */
	bool is_quiet;       /* no pool should have a verdict to give */
	struct worker worker[WORKERS];
	/* struct mail by .node, from and to; those of administrators come last */
	struct list ways[WORKERS + 1][WORKERS];
	struct client client[CLIENTS];
	struct server servers[SERVERS];
	int servers_used; /* so many of them, at most */
	/* The test proves something only if each of them has happened. */
	struct counts {
		unsigned grants, dials, hands, evictions, losses, calms, reserves;
		unsigned refills, parks, cancels, outdated, killed, surplus, checks;
		unsigned stops, freezes, replicas, interruptions, refusals, full, kept;
		unsigned pressed, replaced, abandoned;
	} counts;
	uint64_t rush_us;    /* when it began */
	uint64_t longest_us; /* that somebody waited in it */
};

extern struct fixture w;
extern const char *const database_names[DATABASES], *const user_names[USERS];

static inline unsigned any(unsigned n)
{
	return (unsigned)(random_next(&w.random) >> 16) % n;
}

static inline bool is_alone(void)
{
	return w.workers == 1;
}

static inline unsigned number_of_worker(const struct worker *worker)
{
	return (unsigned)(worker - w.worker);
}

static inline struct worker *worker_of(const struct pool *pool)
{
	return pool->database->catalog->events_ctx;
}

static inline struct server *server_of(struct slot *slot)
{
	return container_of(slot, struct server, slot);
}

static inline struct client *client_of(struct pool_request *request)
{
	return container_of(request, struct client, request);
}

/* ---- workers.c: threads, messages between them, commands ---- */
/* False: the thread stands still.  A thread that has entered leaves. */
bool may_enter(struct worker *worker);
void leave(struct worker *worker);
bool is_unresponsive(void *ctx, unsigned worker);
bool is_anybody_still(void);
/* One thread stands still, or all go on. */
void stop_one(void);
void post_note(void *ctx, struct central_note *note);
void send_off(struct server *s);
/* False: there was none. */
bool deliver(unsigned from, unsigned to);
/* Reaches one worker after the other.  Takes the reference to order.config. */
void command(struct order order);

/* ---- prop_pool.c: which settings are in force ---- */
void administrator_acts(void);

/* ---- events.c: what clients, servers and hosts do ---- */
void happen(void);
void client_acts(struct client *c, bool is_patient);
void client_asks(struct client *c, enum request_kind kind);
void client_goes(struct client *c);
void give_back(struct server *s);
struct server *any_server(void);
/* is_lucky: logins succeed.  is_mortal: a server with nothing else to do may die.
 * False: it had nothing to do. */
bool has_acted(struct server *s, bool is_lucky, bool is_mortal);
/* Closes one client or server of a killed pool. */
bool has_buried_one(void);
/* The monitor has looked at the hosts of a database.  all_up: they are up and fit. */
void monitor_tells(unsigned database, bool all_up);
void freeze(bool is_frozen);

/* ---- calm.c: no new events ---- */
/* Something happens at another worker, before a lock. */
void happen_elsewhere(void);
/* Delivers everything that is on its way. */
void settle(void);
void pass(uint64_t us, uint64_t step_us);
/* Afterwards w.is_calm. */
void be_calm(void);
void everybody_is_busy(void);
void everybody_is_served(void);

/* ---- verdicts.c: what the pools decide ---- */
extern const struct catalog_events model_events;
unsigned number_of(const struct pool *pool);
struct runner *runner_of(struct pool *pool);
struct server *unused_server(void);
void close_server(struct server *s);
void carry(struct worker *worker, struct pool *pool, const struct verdict *v);
void serve(struct worker *worker, struct pool *pool);
void serve_scheduled(struct worker *worker, size_t i);
/* Pools and servers whose time has come. */
void serve_woken(struct worker *worker);

/* ---- checks.c: what is true between two events ---- */
struct sums {
	int pools[POOLS], dbs[DATABASES], users[USERS], process;
};
/* The limits in force. */
struct limits {
	int size, reserve, least, db, user, process;
};
struct sums count_servers(void);
struct limits limits_of(const struct pool *pool);
bool is_within(int count, int limit);
/* Logins that take long do not count while another host can be tried. */
size_t slow_beside(const struct pool *pool);
void check_limits(void);
/* Within an event, when a server is just being opened or closed. */
void check_exceeded(void);
void check_all(void);

/* ---- alone.c: what is true with one worker when nothing is due ---- */
uint64_t first_wait(const struct pool *pool);
bool looks_soon(const struct pool *pool, uint64_t wake_us);
/* Room is left for a moment to one who has waited longer. */
bool leaves_room(const struct pool *pool);
/* A pool looks from time to time whether there is room for min_pool_size, or for a host
 * whose turn it is to be probed. */
bool is_refill(const struct pool *pool, const struct verdict *v);
void check_eviction(const struct pool *pool);
void check_alone(void);

#endif
