/*
 * The hosts of a database: what is known of each, and which of them the next connection
 * or the next client goes to.  All pools of a database share the records, so that a
 * failure is noticed once and weights hold for all clients together.  No I/O: a host is
 * down when a connection to it failed, and up when one got through.
 */
#ifndef POOL_HOSTS_H
#define POOL_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct database;
struct database_config;
struct pool;
struct seat;

enum host_state {
	HOST_UP,
	HOST_DOWN,    /* left out until retry_us, then due to be tried again */
	HOST_PROBING, /* an attempt to reach it is under way */
};

enum host_role {
	HOST_ROLE_UNKNOWN, /* no server has told yet */
	HOST_PRIMARY,
	HOST_STANDBY, /* in recovery */
};

/* What one server says of itself. */
struct host_report {
	enum host_role role;
	bool is_read_only;   /* default_transaction_read_only */
	bool is_kept_posted; /* it says by itself when that changes */
};

/* Each database and each share that knows it holds a reference. */
struct host {
	char *name; /* owned; NULL: the unix socket in unix_socket_dir */
	int port, weight;
	unsigned refs;
	bool is_listed; /* the database's entry still names it */
	enum host_state state;
	struct host_report report; /* of the last server that told; see hosts_role.h */
	/* when it told or could not be reached, and when to look at it again */
	uint64_t looked_us, look_us;
	uint64_t scouted_us; /* when a SWITCHOVER tried it last */
	bool is_doubtful;    /* ... because it seems to have changed */
	/* Assignments for the balance: set level with the others when the host comes
	 * back, for it shall not get all clients to make up for its absence. */
	uint64_t turns;
	uint64_t assignments, failures;        /* since it is known */
	unsigned connections, resting, logins; /* of all pools; the latter two of it */
	uint64_t pause_us, retry_us;           /* while it is down */
	char last_error[100];                  /* of the last failure, "" = none */
	char logged[100]; /* what the log was told last during a SWITCHOVER */
	uint64_t logged_us;
};

struct hosts {
	struct host **list; /* owned, in the order of the entry */
	size_t count;
	/* A reference: the only one in use as long as it is up and its role fits.
	 * NULL: none, all are equal. */
	struct host *elected;
	uint64_t draws; /* numbers taken for load_balance_hosts=random */
};

/* What one pool has at one host. */
struct share {
	struct node node; /* in pool->shares */
	struct host *host;
	struct list idle; /* struct seat by .share_node, in the order of lending */
	size_t seat_count;
	uint64_t lag_seen; /* how far it was behind when a connection was wanted */
	/* Roles can have their own default_transaction_read_only: as the last server of
	 * this pool had it, and when that is to be looked at again. */
	bool is_read_only, has_told;
	uint64_t look_us;
};

/* ---- the records ---- */
/* Follow an entry: hosts that it still names keep what is known of them. */
void hosts_adopt(struct hosts *hosts, const struct database_config *config);
void hosts_done(struct hosts *hosts);
/* The one of this name (NULL: the unix socket) and port, or NULL. */
struct host *hosts_find(const struct hosts *hosts, const char *name, int port);
/* Use this one alone as long as it serves; NULL: any. */
void hosts_elect(struct database *db, struct host *host);
/* What a pool has at a host, made when it is not there. */
struct share *hosts_share(struct pool *pool, struct host *host);
/* Frees what a pool has at hosts that are gone; all: at any. No seat may be there. */
void hosts_forget_shares(struct pool *pool, bool all);

/* ---- the choice ---- */
/* The host for the pool's next connection. */
struct host *hosts_next(struct pool *pool);
/* A host that is due to be tried again or looked at is wanted from now on. */
void hosts_look_around(struct pool *pool, uint64_t now_us);
/* While a SWITCHOVER waits: the number of the host to look at now, from 1; 0: none, and
 * *due_us is when there will be one, if that is earlier. */
size_t hosts_find_scouted(const struct pool *pool, uint64_t now_us, uint64_t *due_us);
/* The pool's next connection goes there. */
void hosts_scout(struct pool *pool, size_t wanted, uint64_t now_us);
/* The host to which a connection should be opened though nobody waits for it: one that
 * is due to be tried again, or one that gets too few clients for want of connections.
 * NULL: none. */
struct host *hosts_wanted(const struct pool *pool, uint64_t now_us);
/* The idle seat for the next client, or NULL. */
struct seat *hosts_idle_seat(const struct pool *pool);
/* Is the host that is wanted so far behind that another connection may go for it? */
bool hosts_may_replace(const struct pool *pool);
/* Is the seat at the host that is furthest ahead of its share? */
bool hosts_may_spare(const struct seat *seat, const struct host *wanted);
/* The seat was lent to a client. */
void hosts_lend(struct seat *seat, uint64_t now_us);

/* ---- what happens to seats; those that carry cancel requests are at no host ---- */
/* A connection to the host is being opened, with is_probe only to see whether it
 * serves. */
void hosts_dial(
    struct pool *pool, struct seat *seat, struct host *host, uint64_t now_us);
/* Its login is through, or was refused by a server that is there. */
void hosts_answered(struct seat *seat);
/* The connection takes long to be opened: others look elsewhere until it is. */
void hosts_suspect(struct seat *seat);
/* It could not be reached: it is left out for retry_us, with each failed try for twice
 * as long as before, up to 16 times that. */
void hosts_failed(
    struct seat *seat, const char *text, uint64_t retry_us, uint64_t now_us);
/* Is that worth a line in the log?  While a SWITCHOVER looks at all hosts again and
 * again, only what is another failure than before is, or the same after a while. */
bool hosts_is_news(const struct seat *seat, const char *text, uint64_t now_us);
/* What the server of the seat says of itself, at its login or later.  Connections to
 * hosts that are not to be used any more are marked to close. */
void hosts_learn(struct seat *seat, const struct host_report *report, uint64_t now_us);
/* Another site has found the host up, and this is what a server said of itself there.
 */
void hosts_hear(struct database *db, struct host *host,
    const struct host_report *report, uint64_t looked_us);
/* Mark a connection to a host that is not to be used any more to be closed.
 * Replication goes on where it is. */
void hosts_review(struct seat *seat);
/* It says something that makes its role doubtful: it is looked at. */
void hosts_doubt(const struct seat *seat, uint64_t now_us);
/* The seat comes into seat->state or leaves it; to_front: lent next. */
void hosts_seat_comes(struct seat *seat, bool to_front);
void hosts_seat_goes(struct seat *seat);
/* It is no longer a connection. */
void hosts_seat_ends(struct seat *seat);

#endif
