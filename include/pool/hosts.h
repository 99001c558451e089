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

struct database_config;
struct pool;
struct seat;

enum host_state {
	HOST_UP,
	HOST_DOWN,    /* left out until retry_us, then due to be tried again */
	HOST_PROBING, /* an attempt to reach it is under way */
};
const char *host_state_shown(enum host_state state); /* "up" */

/* Each database and each share that knows it holds a reference. */
struct host {
	char *name; /* owned; NULL: the unix socket in unix_socket_dir */
	int port, weight;
	unsigned refs;
	bool is_listed; /* the database's entry still names it */
	enum host_state state;
	/* Assignments for the balance: set level with the others when the host comes
	 * back, for it shall not get all clients to make up for its absence. */
	uint64_t turns;
	uint64_t assignments, failures;        /* since it is known */
	unsigned connections, resting, logins; /* of all pools; the latter two of it */
	uint64_t pause_us, retry_us;           /* while it is down */
	char last_error[100];                  /* of the last failure, "" = none */
};

struct hosts {
	struct host **list; /* owned, in the order of the entry */
	size_t count;
	uint64_t draws; /* numbers taken for load_balance_hosts=random */
};

/* What one pool has at one host. */
struct share {
	struct node node; /* in pool->shares */
	struct host *host;
	struct list idle; /* struct seat by .share_node, in the order of lending */
	size_t seat_count;
	uint64_t lag_seen; /* how far it was behind when a connection was wanted */
};

/* ---- the records ---- */
/* Follow an entry: hosts that it still names keep what is known of them. */
void hosts_adopt(struct hosts *hosts, const struct database_config *config);
void hosts_done(struct hosts *hosts);
bool hosts_has_up(const struct hosts *hosts);
/* When the next one of those that are down is due; UINT64_MAX: none is down. */
uint64_t hosts_due_us(const struct hosts *hosts);
/* Is one up, or due to be tried again? */
bool hosts_has_candidate(const struct hosts *hosts, uint64_t now_us);
bool host_is_due(const struct host *host, uint64_t now_us);
/* What a pool has at a host, made when it is not there. */
struct share *hosts_share(struct pool *pool, struct host *host);
/* Frees what a pool has at hosts that are gone; all: at any. No seat may be there. */
void hosts_forget_shares(struct pool *pool, bool all);

/* ---- the choice ---- */
/* The host for the pool's next connection. */
struct host *hosts_next(struct pool *pool);
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
/* A connection to the host is being opened. */
void hosts_dial(struct pool *pool, struct seat *seat, struct host *host);
/* Its login is through, or was refused by a server that is there. */
void hosts_answered(struct seat *seat);
/* It could not be reached: it is left out for retry_us, with each failed try for twice
 * as long as before, up to 16 times that. */
void hosts_failed(
    struct seat *seat, const char *text, uint64_t retry_us, uint64_t now_us);
/* The seat comes into seat->state or leaves it; to_front: lent next. */
void hosts_seat_comes(struct seat *seat, bool to_front);
void hosts_seat_goes(struct seat *seat);
/* It is no longer a connection. */
void hosts_seat_ends(struct seat *seat);

#endif
