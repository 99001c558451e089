/*
 * The catalog: all live databases, users and pools with their limits and counts.  It
 * takes over new configurations (catalog_adopt, which cannot fail) and decides which
 * pools these make obsolete.  It does no I/O, finds names with maps, and never walks
 * all clients.
 */
#ifndef POOL_CATALOG_H
#define POOL_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/scram.h"
#include "auth/secret.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "conf/config.h"
#include "pool/catalog_users.h"
#include "pool/central.h"
#include "pool/hosts.h"
#include "pool/scopes.h"
#include "pool/stats.h"

struct activity;
struct pool;

struct service; /* serves the clients of a database; defined in session/ */

struct database {
	char *name;
	struct catalog *catalog;
	/* borrowed from the snapshot, or from arena */
	const struct database_config *config;
	struct map *credentials;  /* owned, see credentials.h; NULL: none */
	struct user *forced_user; /* NULL: pools belong to the user who logs in */
	/* catalog->config_round when config was set; 0: an auto-database */
	unsigned config_round;
	bool is_auto, is_admin, paused, disabled;
	/* A RELOAD looks at what stands above for each database. */

	/* owned: has the config of an auto-database; otherwise NULL */
	struct arena *arena;
	const struct service *service;
	struct secret forced_secret; /* password= of the entry; SECRET_NONE: none */
	struct hosts hosts;          /* what is known about the hosts of the entry */
	struct list pools;           /* struct pool by .db_node */
	struct list resting; /* struct slot by .db_node: the longest resting first */
	struct scram_cache forced_cache; /* keys derived from forced_secret */
	/* one reference once is_gone, because config points into it */
	struct config *held;
	struct node node;      /* in catalog->database_list while it is in the map */
	struct node idle_node; /* in catalog->idle_databases */
	int server_count;
	int client_count; /* clients that have proven who they are */
	/* owned: what its freed pools have counted; NULL: nothing */
	struct kept *kept;
	int holder_count; /* clients from their startup packet on; see database_hold */
	struct central_limit *limit; /* one reference; NULL: nothing is counted yet */
	bool is_switching;           /* a SWITCHOVER is running */
	bool is_gone;  /* no longer in the map; freed with its last pool and client */
	bool was_used; /* some client has proven who it is; see database_enter */
	uint64_t
	    idle_since_us; /* auto-databases without clients and servers; 0: in use */
};

struct catalog {
	struct config *config; /* one reference to the snapshot in force */
	struct mem *mem;
	struct slab *user_slab, *database_slab, *pool_slab;
	struct map *users, *databases; /* by name */
	/* how often servers were to be replaced by new ones: a RECONNECT, or a RELOAD
	 * that changes how they log in */
	unsigned renewals;
	/* the user list in force, one reference; NULL: there is none.  Its users are in
	 * the map from the moment when somebody looks for them. */
	struct userlist *list;
	size_t unlisted_count; /* users in the map that are not is_listed */
	/* Some users in the map may still have secrets of an older list. */
	bool is_reviewing_users;
	size_t users_reviewed; /* place in the map */
	struct map *pools;     /* by (database, user) */
	/* the database of each entry of config->databases, in their order; owned */
	struct database **by_entry;
	/* the first of them whose auth_query depends on global settings only, or NULL:
	 * where users are looked up whose client has asked for a database that does not
	 * exist */
	struct database *stand_in;
	struct list pool_list; /* struct pool by .node, in order of creation */
	/* struct database by .node, in order of creation */
	struct list database_list;
	/* Walks through the lists in several parts; one at a time. */
	struct list_walk pool_walk, database_walk;
	/* struct pool by .spare_node: pools that can give up a slot under
	 * max_server_connections, those with the most first */
	struct heap spare;
	struct central_view view;    /* its place among the workers of the process */
	struct central_limit *limit; /* of the process, one reference */
	/* number of snapshots so far whose entries had changed */
	unsigned config_round;
	bool paused;    /* PAUSE of all databases */
	bool suspended; /* SUSPEND */
	/* The servers are being handed to or taken from another process, which may
	 * still fail.  Meanwhile no pool decides anything. */
	bool is_offered;
	/* another process has taken over: pools are no longer filled up */
	bool is_leaving;
	/* SHUTDOWN WAIT_FOR_SERVERS: a client that would have to wait is refused */
	bool refuse_waiting;
	uint64_t snapshot_us,
	    older_snapshot_us;   /* when stats_history was taken; 0: never */
	unsigned snapshot_count; /* how many were taken */
	struct kept *gone;       /* owned: counters of freed databases; NULL: none */
	const struct service *service;          /* service of ordinary databases */
	const struct database_config *template; /* the `*` entry in force; NULL: none */
	/* one reference to the snapshot that has template */
	struct config *template_config;
	struct activity *activity; /* owned, see activity.h; NULL: nothing is counted */
	struct list idle_pools; /* struct pool by .idle_node: the longest idle first */
	/* struct pool by .counted_node: pools in use, and those that have counted
	 * anything since the last snapshot but one.  For all others both snapshots
	 * equal the current counts. */
	struct list counted;
	/* struct database by .idle_node: first list: databases that were never used;
	 * second: the others */
	struct list idle_databases;
	/* the latest time known, for functions that are not given one */
	uint64_t seen_us;
	uint64_t credentials_epoch; /* see credentials_forget_all */
	struct rounds found_rounds; /* of the SCRAM secrets that auth_query has found */

	/* Set by the broker soon after catalog_new, and not NULL from then on. */
	const struct catalog_events *events;
	void *events_ctx;
};

/* Calls from the pool floor to the broker.  They must not call the catalog or a pool at
 * once, but queue the work. */
struct catalog_events {
	/* Something has changed for this pool: pool_next must be called until it
	 * returns NONE. */
	void (*schedule)(void *ctx, struct pool *pool);
	/* The pool's slots and clients must go, because the database was removed, or by
	 * KILL.  reason is the text for clients and log ("database removed").
	 * pool_free_if_unused frees the pool when the last of them has left.  Not
	 * called for a pool without slots and clients, which is freed at once. */
	void (*kill)(void *ctx, struct pool *pool, const char *reason);
	/* The monitor of hosts is to look at once, because of this one.  report: what a
	 * server there has reported; NULL: nothing.  The function is NULL where there
	 * is no monitor. */
	void (*hint)(
	    void *ctx, const struct host *host, const struct host_report *report);
	/* The pool is about to be freed: free pool->runner, and remove the pool from
	 * the queue of scheduled pools. */
	void (*freed)(void *ctx, struct pool *pool);
};

/* Makes an empty catalog.  Its slabs are listed in mem, which is borrowed. */
struct catalog *catalog_new(struct mem *mem);
/* Makes it the catalog of this worker, before anything else is done.  central NULL:
 * there is one worker. */
void catalog_share(struct catalog *c, struct central *central, unsigned worker);
void catalog_free(struct catalog **c); /* all pools must be empty */

/* Gets each message that goes to the log, with its level (base/log_levels.h). */
typedef void catalog_note_fn(void *ctx, unsigned level, const char *text);

/*
 * Puts a snapshot in force (takes references).  If users is not NULL, it replaces the
 * user list; users that are not in it lose their secrets.
 *
 * Databases: new ones are added.  Changed ones are marked dirty (pool_mark_dirty) if
 * entry_is_obsoleting.  Removed ones are killed and reported ("dropping database 'X' as
 * it does not exist anymore or inactive auto-database").  Auto-databases stay and are
 * made again from a changed template; if the new snapshot has no template, the old one
 * stays in force.  A forced user stays even if the entry loses it (configuration.md
 * 3).  Cannot fail.
 */
void catalog_adopt(struct catalog *c, struct config *config, struct userlist *users,
    catalog_note_fn *note, void *note_ctx);

/* Adds the console's database: forced user and pool `pgbouncer`, pool size 2, statement
 * mode. */
struct database *catalog_add_admin(struct catalog *c, const struct service *service);
/* Sets the service of all ordinary databases, including later ones. */
void catalog_set_service(struct catalog *c, const struct service *service);

/* Returns the database, or NULL.  Makes no auto-database. */
struct database *catalog_find_database(struct catalog *c, const char *name);
/* Returns the database; if there is none, makes an auto-database from the `*`
 * template.  *is_new tells that ("registered new auto-database"); with several sites
 * only the first one is told.  NULL: unknown, or the template cannot be parsed. */
struct database *catalog_database(struct catalog *c, const char *name, bool *is_new);
/* Whether there is a template, so that a database of this name could be made. */
bool catalog_may_make(const struct catalog *c, const char *name);
/* Parses the template for a database of this name into arena memory.  There must be a
 * template.  NULL: it cannot be parsed. */
const struct database_config *catalog_read_template(
    const struct catalog *c, const char *name, struct arena *arena);
/* Returns the pool of the database and its forced user or, if it has none, this user;
 * makes it if needed.  The pool of a database that is gone refuses all clients. */
struct pool *catalog_pool(struct database *db, struct user *login_user);
/* Returns the pool of the database and exactly this user, whatever the forced user
 * is. */
struct pool *catalog_pool_as(struct database *db, struct user *pool_user);
/* Returns the pool if it exists, else NULL. */
struct pool *catalog_find_pool(struct database *db, struct user *login_user);
struct pool *catalog_find_pool_as(struct database *db, struct user *pool_user);

/*
 * Lifetimes.  A user lives as long as the catalog.  A database lives while it is in the
 * map, has a pool, or is held by a client (from database_hold to database_release).  A
 * pool lives while it has a request, a slot (until pool_gone, also after RETIRE) or a
 * cancel request; without them, until it is killed or idle for too long.
 *
 * A client that leaves therefore calls, in this order: pool_part, pool_free_if_unused,
 * user_leave, database_leave, database_release.  A slot: pool_gone,
 * pool_free_if_unused.
 */
/* Frees a killed pool without slots and clients, and its database if that is gone and
 * this was its last pool.  Does nothing for any other pool. */
void pool_free_if_unused(struct pool *pool);

/* A client holds its database from its startup packet until it leaves.  Holders do not
 * count against limits and do not keep an auto-database alive, because they need no
 * login. */
void database_hold(struct database *db);
/* Ends database_hold; frees a database that is gone and has neither pools nor other
 * holders. */
void database_release(struct database *db);
/* Count clients against max_db_client_connections (and user_* against
 * max_user_client_connections): database_enter when a client has proven who it is,
 * database_leave when it leaves.  database_enter returns false when the limit is
 * exceeded; the client is counted even then and must leave.  exempt: see protocol.md
 * 10.3. */
bool database_enter(struct database *db, bool exempt);
void database_leave(struct database *db);
/* A client that was counted goes to another worker (carry), and arrives there
 * (receive).  It counts the whole time.  catalog_lose_client: it was not accepted
 * there. */
void database_carry(struct database *db);
void database_receive(struct database *db);
void catalog_lose_client(struct catalog *c, const char *database, const char *user);

/* From now on names of the database's hosts have these addresses (hosts.addresses; "":
 * one each).  Connections to others are marked to be closed. */
void database_spread(struct database *db, const char *addresses);

/* RECONNECT: marks the pools of one database dirty, or all pools (db NULL). */
void catalog_mark_dirty(struct catalog *c, struct database *db);
/* A pause has changed, of one database or of all (db NULL): schedules their pools. */
void catalog_schedule_all(struct catalog *c, struct database *db);
/* In a process that another one has taken over nobody can end a pause: the clients that
 * wait for paused databases are refused. */
void catalog_refuse_paused(struct catalog *c);
/* KILL: kills the pools of one database, or of all (db NULL) except the console's, and
 * pauses the databases. */
void catalog_kill(struct catalog *c, struct database *db, const char *reason);

/* Housekeeping: frees auto-databases idle longer than autodb_idle_timeout and pools
 * idle longer than pool_idle_timeout.  Returns when it must be called next (in terms of
 * loop_now; UINT64_MAX: not needed). */
uint64_t catalog_housekeeping(
    struct catalog *c, uint64_t now_us, catalog_note_fn *note, void *note_ctx);
/* To be called every stats_period: takes snapshots of the counters of all pools. */
void catalog_snapshot_stats(struct catalog *c, uint64_t now_us);
/* Adds what the pools of a database have counted here, also those that have been freed,
 * or were freed at other sites that have left it to this one.  `history` may be NULL.
 * Returns the number of pools; -1: there is nothing to add. */
int catalog_count_database(
    struct database *db, struct stats *sum, struct stats_history *history);
/* The histograms of a pool, with those that other sites have left to this one.  NULL:
 * nothing was counted, or the pool is being killed. */
const struct latency *catalog_durations_of(struct pool *pool);

/* Return sorted arrays for SHOW; the caller frees them with free(). */
struct database **catalog_sorted_databases(const struct catalog *c, size_t *count);
struct pool **catalog_sorted_pools(const struct catalog *c, size_t *count);

/* The secret for logging in to a server of this pool: the entry's password=; else
 * (without a forced user) the password remembered for the pool user; else its secret in
 * auth_file; else the one that auth_query found. */
const struct secret *pool_server_secret(const struct pool *pool);
/* The cache for keys derived from that secret. */
struct scram_cache *pool_server_scram_cache(struct pool *pool);

#endif
