/*
 * What exists: live databases, users and pools, their limits and counts.  It takes over
 * a new snapshot (catalog_adopt cannot fail) and says which pools that makes obsolete.
 * No I/O; names are looked up in maps; nothing here walks all clients.
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
#include "pool/hosts.h"
#include "pool/scopes.h"
#include "pool/stats.h"
#include "pool/tally.h"

struct pool;

/* Limits that several pools share; the narrowest first. */
enum room_kind {
	ROOM_USER,     /* max_user_connections */
	ROOM_DATABASE, /* max_db_connections */
	ROOM_PROCESS,  /* max_server_connections */
	ROOM_COUNT,    /* none of them */
};

struct wish;
struct service; /* who serves the clients of a database: defined in session/ */

/* The password that LDAP or PAM found right last: it is for logins to servers. */
struct remembered {
	struct secret secret;
	struct scram_cache cache; /* keys derived from it */
};

struct user {
	char *name;
	struct catalog *catalog;
	struct secret
	    secret; /* from auth_file; SECRET_NONE with has_secret false if not there */
	struct remembered *remembered; /* owned; NULL: nothing */
	uint32_t list_round;           /* of the user list that had it last */
	bool has_secret; /* has a static entry in auth_file (possibly empty) */
	const struct user_config
	    *config; /* borrowed from catalog->config; NULL = none */
	struct scram_verifier
	    *adhoc;          /* owned: verifier built from a plain password, kept
				until the password changes; NULL = not built */
	bool has_adhoc_keys; /* until then it is salt and rounds only */
	struct scram_cache scram_cache; /* keys derived for logins to servers */
	int server_count;    /* seats of all pools whose pool user this is, any state */
	int client_count;    /* clients that have proven that they are this user */
	struct tally *tally; /* held: what all sites count; NULL: nobody else does */
	struct list pools;   /* struct pool by .user_node: as pool user */
	struct list
	    resting; /* struct seat by .user_node: idle and used ones, longest first */
	struct heap starving; /* struct pool by .room_nodes: see room.h */
};

struct database {
	char *name;
	struct catalog *catalog;
	const struct database_config *config; /* borrowed: snapshot or own arena */
	struct arena *arena; /* owned: auto-databases' config; NULL otherwise */
	const struct service *service;
	struct user *forced_user; /* NULL: pools by login user */
	struct secret
	    forced_secret;    /* password= of the entry; SECRET_NONE if not given */
	struct hosts hosts;   /* what is known of those that config names */
	struct list pools;    /* struct pool by .db_node */
	struct list resting;  /* struct seat by .db_node: longest resting first */
	struct heap starving; /* struct pool by .room_nodes: see room.h */
	struct scram_cache forced_cache; /* keys derived from forced_secret */
	struct map *credentials;         /* owned: see credentials.h; NULL: none */
	struct config *held;   /* one reference once is_gone: what config points into */
	struct node node;      /* in catalog->database_list, while in the map */
	struct node idle_node; /* in catalog->idle_databases */
	int server_count;
	int client_count; /* clients that have proven who they are */
	int holder_count; /* clients that are or were logging in; see database_hold */
	unsigned config_round; /* catalog->config_round when config was set; 0: an
				  auto-database */
	struct tally *tally;   /* held: what all sites count; NULL: nobody else does */
	bool is_auto, is_admin, paused, disabled;
	bool is_switching; /* a SWITCHOVER is under way */
	bool is_scouting;  /* ... and pools of this site look for its next host */
	bool is_gone;  /* no longer in the map; freed with its last pool and client */
	bool was_used; /* a client has proven who it is; see database_may_enter */
	uint64_t
	    idle_since_us; /* auto-databases without clients and servers; 0 = in use */
};

/* How far the taking over of a user list is. */
struct users_adoption {
	const struct userlist *list; /* borrowed; NULL: none is */
	size_t at;
	size_t scram_count, other_count;
	bool is_sweeping; /* all in the list are there: now for those that are not */
};

struct catalog {
	struct config *config; /* one reference: the snapshot in force */
	struct mem *mem;
	struct slab *user_slab, *database_slab, *pool_slab;
	struct map *users, *databases; /* by name */
	struct map *pools;             /* by (database, user) */
	struct list pool_list;         /* struct pool by .node, order of creation */
	struct list database_list;     /* struct database by .node, order of creation */
	/* Ways through them that are gone in parts; one at a time. */
	struct list_walk pool_walk, database_walk;
	int server_count;     /* seats of all pools, but those with a cancel request */
	struct heap starving; /* struct pool by .room_nodes: see room.h */
	struct heap spare; /* struct pool by .spare_node: those with a seat to give up
			      under max_server_connections, most first */
	struct tally_view view; /* other sites of the process */
	struct tally *tally;    /* held: what all of them count; NULL: there are none */
	unsigned config_round;  /* counts the snapshots with other entries */
	bool paused;            /* global PAUSE */
	bool suspended;         /* global SUSPEND */
	bool is_offered;     /* to another process: no pool decides anything until that
				has taken it or has not; or it is being taken from one */
	bool is_leaving;     /* taken over: no pool is kept filled any more */
	bool refuse_waiting; /* SHUTDOWN WAIT_FOR_SERVERS: who must wait is refused */
	uint64_t snapshot_us,
	    older_snapshot_us;         /* when stats_history was taken; 0 = never */
	const struct service *service; /* of ordinary databases */
	const struct database_config
	    *template;                  /* the `*` entry in force; NULL = none */
	struct config *template_config; /* one reference: where template lives */
	struct list idle_pools; /* struct pool by .idle_node: longest idle first */
	/* struct pool by .counted_node: those that have counted anything since the last
	 * snapshot but one, or are in use.  Of all others both snapshots are what they
	 * count now. */
	struct list counted;
	/* struct database by .idle_node: those nobody ever used, then the same */
	struct list idle_databases;
	uint64_t seen_us; /* the latest time any call told: for calls that tell none */
	uint64_t credentials_epoch; /* see credentials_forget_all */
	/* of the user list: SCRAM secrets, and plain passwords and md5 hashes */
	size_t scram_secret_count, other_secret_count;
	struct users_adoption coming; /* the user list that is being taken over */
	uint32_t list_round;          /* its number */

	/* Set by whoever does the I/O (the broker), soon after catalog_new; not NULL
	 * from then on. */
	const struct catalog_events *events;
	void *events_ctx;
};

/* Calls out of the pool floor.  None may call back into catalog or pool at once: they
 * queue work. */
struct catalog_events {
	/* Something changed for this pool: call pool_next until it says nothing. */
	void (*kick)(void *ctx, struct pool *pool);
	/* The pool's seats and clients must go: database removed, KILL.  reason is the
	 * text for clients and log ("database removed").  The pool is freed by
	 * pool_free_if_unused when the last of them left.  Not called for a pool that
	 * has nobody: it is freed at once. */
	void (*kill)(void *ctx, struct pool *pool, const char *reason);
	/* Another site can help; what is in the wish is copied.  NULL: there is none.
	 */
	void (*wish)(void *ctx, unsigned site, const struct wish *wish);
	/* The pool has a welcome now, and other sites' clients wait for it. */
	void (*welcomed)(void *ctx, struct pool *pool);
	/* The pool is about to be freed: drop what hangs on pool->desk, and take it
	 * out of the queue of kicked pools. */
	void (*freed)(void *ctx, struct pool *pool);
};

/* An empty catalog; its slabs are listed in mem, which is borrowed. */
struct catalog *catalog_new(struct mem *mem);
/* Others count as well: see tally.h.  Before anything else. */
void catalog_share(
    struct catalog *c, struct tallies *tallies, unsigned site, unsigned site_count);
void catalog_free(struct catalog **c); /* pools must be empty */

/* What reload does, for the log: one call per thing. */
typedef void catalog_note_fn(void *ctx, const char *text);

/*
 * Take over a snapshot (a reference is taken) and, when users is not NULL, the user
 * list: secrets of all users are replaced, those gone from the list lose theirs.
 * Databases: new ones are added; changed ones marked dirty (pool_mark_dirty) when
 * entry_is_obsoleting; gone ones killed and noted ("dropping database 'X' as
 * it does not exist anymore or inactive auto-database"); auto-databases live on,
 * re-made from a changed template; the template of the old snapshot stays in force when
 * the new one has none.  Forced users cannot be lost (configuration.md 3).  Cannot
 * fail.
 */
void catalog_adopt(struct catalog *c, struct config *config,
    const struct userlist *users, catalog_note_fn *note, void *note_ctx);

/* The secrets of a user list in steps: for one with very many users.  The list must
 * last until catalog_adopt_users returns false; one that was being taken over gives
 * way, as it does to a list given to catalog_adopt.  NULL: none is taken over. */
void catalog_begin_users(struct catalog *c, const struct userlist *users);
/* The next `most` users.  True: there are more. */
bool catalog_adopt_users(struct catalog *c, size_t most);

/* The reserved console database: forced user and pool `pgbouncer`, size 2, statement.
 */
struct database *catalog_add_admin(struct catalog *c, const struct service *service);
/* The service of every ordinary database, also those that come later. */
void catalog_set_service(struct catalog *c, const struct service *service);

/* NULL when there is none.  No auto-database is made. */
struct database *catalog_find_database(struct catalog *c, const char *name);
/* The same, making an auto-database from the `*` template when needed; *is_new says so
 * ("registered new auto-database"), at the first of several sites only.  NULL: unknown,
 * or the template does not parse. */
struct database *catalog_database(struct catalog *c, const char *name, bool *is_new);
/* Might one be made of this name?  Only its template says whether that is so. */
bool catalog_may_make(const struct catalog *c, const char *name);
/* What the template says for a database of this name, in arena memory; there must be
 * one.  NULL: it does not parse. */
const struct database_config *catalog_read_template(
    const struct catalog *c, const char *name, struct arena *arena);
/* A user known from auth_file, [users], as forced user, or found by auth_query: NULL if
 * not known. */
struct user *catalog_find_user(struct catalog *c, const char *name);
/* The same, making it known. */
struct user *catalog_user(struct catalog *c, const char *name);
/* LDAP or PAM has accepted this password of the user: from now on it is the password
 * for logins to servers as this user.  It is copied. */
void user_remember(struct user *user, const char *password);
/* The pool of (database, forced user or this login user), made on demand.  That of a
 * database that is gone refuses everyone. */
struct pool *catalog_pool(struct database *db, struct user *login_user);
/* The pool of (database, this very user), whoever the database's forced user is. */
struct pool *catalog_pool_as(struct database *db, struct user *pool_user);
/* The same pools if they exist.  NULL: there is none now. */
struct pool *catalog_find_pool(struct database *db, struct user *login_user);
struct pool *catalog_find_pool_as(struct database *db, struct user *pool_user);

/*
 * How long things live.  A user lives as long as the catalog.  A database lives while
 * it is in the map, has a pool, or is held by a client (database_hold until
 * database_release).  A pool lives while it has an ask, a seat (until pool_gone, also
 * after RETIRE) or a cancel request, and otherwise until it is killed or idle for too
 * long. So a client that goes calls, in this order: pool_part, pool_free_if_unused,
 * user_leave, database_leave, database_release; a seat: pool_gone, pool_free_if_unused.
 */
/* Free a killed pool that has nobody left, and with the last one its gone database.
 * Harmless for any other pool. */
void pool_free_if_unused(struct pool *pool);

/* A client that asks for a database holds it from its startup packet until it goes.
 * Holders do not count against a limit, and do not make an auto-database stay: anybody
 * can be one. */
void database_hold(struct database *db);
/* Frees a database that is gone and has neither pools nor other holders. */
void database_release(struct database *db);
/* Counts clients against max_db_client_connections and max_user_client_connections:
 * *_may_enter when a client has proven who it is, *_leave when it goes.  *_may_enter
 * returns false when the limit is exceeded; the client is counted all the same and must
 * leave.  exempt: see protocol.md 10.3. */
bool database_may_enter(struct database *db, bool exempt);
void database_leave(struct database *db);
bool user_may_enter(struct user *user, bool exempt);
void user_leave(struct user *user);

/* Mark pools dirty: one database's, or all (db NULL).  RECONNECT. */
void catalog_mark_dirty(struct catalog *c, struct database *db);
/* Global or per-database pause changed: kick what it concerns. */
void catalog_kick_all(struct catalog *c, struct database *db);
/* Kill the pools of one database or all (db NULL; not the console's) and pause them. */
void catalog_kill(struct catalog *c, struct database *db, const char *reason);

/* Housekeeping, called a few times per minute or when told: frees auto-databases idle
 * longer than autodb_idle_timeout and pools idle longer than pool_idle_timeout; returns
 * when it wants to be called next (loop_now time, UINT64_MAX = no need). */
uint64_t catalog_housekeeping(
    struct catalog *c, uint64_t now_us, catalog_note_fn *note, void *note_ctx);
/* Every stats_period: shift the snapshots of all pools. */
void catalog_snapshot_stats(struct catalog *c, uint64_t now_us);

/* Sorted walks for SHOW; caller frees the array with free(). */
struct database **catalog_sorted_databases(const struct catalog *c, size_t *count);
struct user **catalog_sorted_users(const struct catalog *c, size_t *count);
struct pool **catalog_sorted_pools(const struct catalog *c, size_t *count);

/* The secret for logging in to a server of this pool: the entry's password=, else
 * (where no user is forced) what is remembered of the pool user, else its own in
 * auth_file, else the one that auth_query found. */
const struct secret *pool_server_secret(const struct pool *pool);
/* Where the keys derived from that secret are kept. */
struct scram_cache *pool_server_scram_cache(struct pool *pool);

#endif
