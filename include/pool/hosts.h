/*
 * The hosts of a database: what is known about each, and which one gets the next
 * connection or the next client.  All pools of a database share these records, so that
 * a failure is noticed once, and weights apply to all clients together.  There is no
 * I/O: a host is down when a connection to it has failed, and up when one has
 * succeeded.
 */
#ifndef POOL_HOSTS_H
#define POOL_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "pool/host_state.h"

struct database;
struct database_config;
struct pool;
struct seat;

/* What a site's own attempts say about a host. */
enum host_reach {
	REACH_UP,
	REACH_DOWN,    /* not used until retry_us; then it may be tried again */
	REACH_PROBING, /* an attempt to reach it is running */
};

/* One host.  The database and each share for it hold a reference. */
struct host {
	char *name; /* owned; NULL: the Unix socket in unix_socket_dir */
	int port, weight;
	unsigned refs;
	bool is_listed; /* the database's entry still has this host */
	enum host_reach state;
	/* what the monitor of hosts says, once hosts.is_judged */
	struct host_verdict verdict;
	/* it was the database's primary in the process before this one, at that
	 * timeline (host_verdict) */
	bool was_primary;
	uint32_t was_timeline;
	struct host_report report; /* the latest report of a server; see hosts_role.h */
	/* looked_us: when the server reported or could not be reached; look_us: when
	 * the role must be checked again */
	uint64_t looked_us, look_us;
	uint64_t scouted_us; /* when a SWITCHOVER last tried it */
	/* the role must be checked because it seems to have changed */
	bool is_doubtful;
	/* Assignments as counted for load balancing.  When the host comes back, the
	 * count is raised to that of the others, because it should not get all clients
	 * to make up for its absence. */
	uint64_t turns;
	uint64_t assignments, failures; /* since the host is known */
	/* of all pools; resting and logins are a part of connections */
	unsigned connections, resting, logins;
	/* while it is down: the length of the pause, and its end */
	uint64_t pause_us, retry_us;
	char last_error[HOST_REASON_MAX]; /* text of the last failure; "": none */
	char logged[100]; /* the last text that was logged during a SWITCHOVER */
	uint64_t logged_us;
};

struct hosts {
	struct host **list; /* owned, in the order of the entry */
	size_t count;
	/* a reference: the host to use exclusively while it is up and has the right
	 * role.  NULL: all hosts are equal. */
	struct host *elected;
	/* number of random numbers drawn for load_balance_hosts=random */
	uint64_t draws;
	/* the monitor of hosts has told its verdicts, which count from then on */
	bool is_judged;
};

/* What one pool has at one host. */
struct share {
	struct node node; /* in pool->shares */
	struct host *host;
	/* struct seat by .share_node, in the order in which they are lent */
	struct list idle;
	size_t seat_count;
	/* how far the host was behind when a connection for balance was wanted */
	uint64_t lag_seen;
	/* default_transaction_read_only can be set per role, so this is the value of
	 * this pool's last server there, and when to check it again. */
	bool is_read_only, has_told;
	uint64_t look_us;
	/* the host has refused this pool's login: not used until then while another
	 * one serves; 0: it has not */
	uint64_t avoided_until_us;
};

/* ---- the records ---- */
/* Takes over the hosts of an entry.  Hosts that it still has keep their records.
 * Returns true if hosts or weights are others now: the balance begins anew then. */
bool hosts_adopt(struct hosts *hosts, const struct database_config *config);
void hosts_done(struct hosts *hosts);
/* Returns the host with this name (NULL: the Unix socket) and port, or NULL. */
struct host *hosts_find(const struct hosts *hosts, const char *name, int port);
/* Uses this host exclusively as long as it can serve; NULL: uses any. */
void hosts_elect(struct database *db, struct host *host);
/* Returns the database's primary as the monitor of hosts says, up or not; NULL: it has
 * not told. */
const struct host *hosts_primary(const struct database *db);
/* Returns what a pool has at a host; makes it if needed. */
struct share *hosts_share(struct pool *pool, struct host *host);
/* Frees what a pool has at hosts that the entry no longer has; all: at any host.  There
 * must be no seat. */
void hosts_forget_shares(struct pool *pool, bool all);

/* ---- the monitor of hosts (host_group.h) ---- */
/* Its verdicts about the hosts of the database, in the order of the entry.  Connections
 * to hosts that may no longer be used are marked to be closed. */
void hosts_follow(struct database *db, const struct host_verdict *list, size_t count,
    uint64_t now_us);
/* Asks it to look at once, because of this host; does nothing if it was asked a moment
 * ago.  report: what a server there has reported; NULL: nothing. */
void hosts_hint(const struct database *db, const struct host *host,
    const struct host_report *report, uint64_t now_us);
/* The host has refused the pool's login.  True: it is left out for a while, because
 * another one serves. */
bool hosts_avoid(struct seat *seat, uint64_t now_us);
/* Whether the seat's host hangs, and another one serves. */
bool hosts_is_lost(const struct seat *seat);

/* ---- the choice ---- */
/* Begins the balance as if so many clients had been assigned.  Sites begin at different
 * places because each balances only its own clients: otherwise all would send their
 * first clients to the same host. */
void hosts_begin_at(struct hosts *hosts, unsigned place);
/* Returns the host for the pool's next connection. */
struct host *hosts_next(struct pool *pool);
/* Marks a host as wanted that should be tried again or whose role must be checked. */
void hosts_look_around(struct pool *pool, uint64_t now_us);
/* During a SWITCHOVER: returns 1 + the index of the host to check now; 0: none, and
 * *due_us is lowered to when there will be one. */
size_t hosts_find_scouted(const struct pool *pool, uint64_t now_us, uint64_t *due_us);
/* The pool's next connection goes to that host. */
void hosts_scout(struct pool *pool, size_t wanted, uint64_t now_us);
/* Returns a host to which a connection should be opened although no client waits for
 * it: one that should be tried again, or one that gets too few clients because it lacks
 * connections.  NULL: none. */
struct host *hosts_wanted(const struct pool *pool, uint64_t now_us);
/* Returns the idle seat for the next client, or NULL. */
struct seat *hosts_idle_seat(const struct pool *pool);
/* Whether the wanted host is so far behind its share that a connection to another host
 * may be closed for it. */
bool hosts_may_replace(const struct pool *pool);
/* Whether the seat is at the host that is furthest ahead of its share. */
bool hosts_may_spare(const struct seat *seat, const struct host *wanted);
/* The seat was lent to a client. */
void hosts_lend(struct seat *seat, uint64_t now_us);

/* ---- what happens to seats; those that carry cancel requests are at no host ---- */
/* A connection to the host is being opened; is_probe: only to see whether the host can
 * serve. */
void hosts_dial(
    struct pool *pool, struct seat *seat, struct host *host, uint64_t now_us);
/* The login has succeeded, or was refused by a server (so the host is reachable). */
void hosts_answered(struct seat *seat);
/* Opening the connection takes long: until it is open, other hosts are used. */
void hosts_suspect(struct seat *seat);
/* The host could not be reached: it is not used for retry_us.  The pause doubles with
 * each failure in a row, up to 16 times retry_us. */
void hosts_failed(
    struct seat *seat, const char *text, uint64_t retry_us, uint64_t now_us);
/* Whether a failure should be logged.  During a SWITCHOVER, which checks all hosts
 * repeatedly, the same failure is only logged again after a while. */
bool hosts_is_news(const struct seat *seat, const char *text, uint64_t now_us);
/* Handles what a seat's server reports about itself, at the login or later.
 * Connections to hosts that may no longer be used are marked to be closed. */
void hosts_learn(struct seat *seat, const struct host_report *report, uint64_t now_us);
/* Another site has found the host up, and a server there has reported this. */
void hosts_hear(struct database *db, struct host *host,
    const struct host_report *report, uint64_t looked_us);
/* Marks the seat to be closed if its host may no longer be used.  Replication
 * connections are kept. */
void hosts_review(struct seat *seat);
/* A message of the server makes its role doubtful: the role will be checked. */
void hosts_doubt(const struct seat *seat, uint64_t now_us);
/* The seat enters or leaves seat->state; to_front: it is lent next. */
void hosts_seat_comes(struct seat *seat, bool to_front);
void hosts_seat_goes(struct seat *seat);
/* The seat is no longer a connection. */
void hosts_seat_ends(struct seat *seat);

#endif
