/*
 * The hosts of a database: what is known about each, and which one gets the next
 * connection or the next client.  All pools of a database share these records, so that
 * a failure is noticed once, and weights apply to all clients together.  There is no
 * I/O.
 *
 * Where a database has several hosts or asks for a role, the monitor of hosts
 * (host_watch.h, host_group.h) tells which of them may be used.  What happens to
 * connections of pools counts until its next verdict, for which it is asked at once.
 */
#ifndef POOL_HOSTS_H
#define POOL_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "pool/host_state.h"

struct database;
struct pool;
struct slot;
struct central_host;
struct central_view;

/* One host.  The database and each pool's record of it hold a reference. */
struct host {
	/* owned; NULL: the Unix socket in unix_socket_dir.  A name with several
	 * addresses is as many hosts, "NAME/ADDRESS" each. */
	char *name;
	int port, weight;
	unsigned refs;
	bool is_listed; /* the database's entry still has this host */
	bool was_tried; /* some connection to it has succeeded or failed */
	bool is_down;   /* not used until retry_us; UINT64_MAX: the monitor tells */
	uint64_t retry_us;
	/* what the monitor of hosts says, once hosts.is_judged; where it is not asked
	 * whom to use (hosts_are_watched), its value is only shown */
	struct host_verdict verdict;
	/* it was the database's primary in the process before this one, at that
	 * timeline (host_verdict) */
	bool was_primary;
	uint32_t was_timeline;
	struct host_report report; /* the latest of a server or of the monitor */
	uint64_t doubted_us;       /* when an error of a server last cast doubt on it */
	/* Assignments as counted for load balancing.  When the host comes back, the
	 * count is raised to that of the others, because it should not get all clients
	 * to make up for its absence. */
	uint64_t turns;
	uint64_t assignments, failures; /* since the host is known */
	/* of all pools; resting and logins are a part of connections */
	unsigned connections, resting, logins;
	/* a reference: connections of all workers; NULL: there is one */
	struct central_host *shared;
	struct central_view *view; /* borrowed from the catalog */
	unsigned slow_logins;      /* a part of logins: clients do not wait for them */
	char last_error[HOST_REASON_MAX]; /* text of the last failure; "": none */
};

struct hosts {
	struct host **list; /* owned, in the order of the entry */
	size_t count;
	/* owned: the addresses of those names that have several, as the monitor of
	 * hosts has found them: "NAME=ADDRESS,ADDRESS NAME=..."; NULL: no name has */
	char *addresses;
	/* a reference: the host to use exclusively while it is up and has the right
	 * role.  NULL: all hosts are equal. */
	struct host *elected;
	/* servers may be at hosts that the entry has no more, see hosts_lose */
	bool has_leavers;
	/* number of random numbers drawn for load_balance_hosts=random */
	uint64_t draws;
	/* the monitor of hosts has told its verdicts, which count from then on */
	bool is_judged;
	/* it does not look any more, because nobody needed the hosts: what it told last
	 * is only shown, and who needs a role waits for its next word */
	bool is_stale;
	/* when it was last asked to look; 0: not since it has told */
	uint64_t hinted_us;
};

/* What one pool has at one host. */
struct pool_host {
	struct node node; /* in pool->balance.pool_hosts */
	struct host *host;
	/* struct slot by .share_node, in the order in which they are lent */
	struct list idle;
	size_t slot_count;
	/* how far the host was behind when a connection for balance was wanted */
	uint64_t lag_seen;
	/* default_transaction_read_only can be set per role, so this is the value of
	 * this pool's last server there, and how long it counts. */
	bool is_read_only, has_told;
	uint64_t told_until_us;
	/* the host has refused this pool's login: not used until then while another
	 * one serves; 0: it has not */
	uint64_t avoided_until_us;
	char *refusal; /* owned: the server's words then; NULL: none since a login */
};

/* How a pool's connections are divided over the hosts of its database.  hosts.c and
 * hosts_balance.c change it; pool.c and pool_open.c say when the connection that is
 * wanted has come, and whether room for it is. */
struct balance {
	struct list pool_hosts; /* owned: struct pool_host */
	size_t slow_logins;     /* number of slots that are slow */
	unsigned next;        /* load_balance_hosts=disable: index of the host in use */
	bool avoids_some;     /* some host has been avoided */
	bool has_lost;        /* there may be servers for hosts_is_lost */
	struct host *claimed; /* where VERDICT_DIAL opens it; NULL: none was given */
	/* 1 + index of the host that hosts_wanted returned; 0: none */
	size_t wanted;
	uint64_t wanted_lag;
	bool wants_room;     /* the connection to that host lacks room */
	uint64_t own_bytes;  /* a part of stats.bytes_sent that no server has sent */
	uint64_t seen_bytes; /* sent by servers when the monitor of hosts last looked */
};

/* ---- the records ---- */
/* Takes over the hosts of the database's entry.  Hosts that it still has keep their
 * records.  Returns true if hosts or weights are others now: the balance begins anew
 * then. */
bool hosts_adopt(struct database *db);
void hosts_done(struct hosts *hosts);
/* What hosts.addresses has for this name, and how long it is; NULL: nothing. */
const char *hosts_addresses(const struct hosts *hosts, const char *name, size_t *len);
/* Returns the host with this name (NULL: the Unix socket) and port, or NULL. */
struct host *hosts_find(const struct hosts *hosts, const char *name, int port);
/* Uses this host exclusively as long as it can serve; NULL: uses any. */
void hosts_elect(struct database *db, struct host *host);
/* Returns the database's primary as the monitor of hosts says, up or not; NULL: it has
 * not told. */
const struct host *hosts_primary(const struct database *db);
/* Returns what a pool has at a host; makes it if needed. */
struct pool_host *hosts_of_pool(struct pool *pool, struct host *host);
/* Frees what a pool has at hosts that the entry no longer has; all: at any host.  There
 * must be no slot. */
void hosts_forget_pool(struct pool *pool, bool all);

/* ---- the monitor of hosts (host_group.h) ---- */
/* Its verdicts about the hosts of the database, in the order of the entry.  Connections
 * to hosts that may no longer be used are marked to be closed. */
void hosts_follow(struct database *db, const struct host_verdict *list, size_t count,
    uint64_t now_us);
/* What it says of this host, which databases show that have no other one.  How they use
 * it does not change. */
void hosts_note_lone(
    struct database *db, const char *name, int port, const struct host_value *value);
/* It does not look any more. */
void hosts_rest(struct database *db);
/* Asks it to look at once, because of this host; does nothing if it was asked a moment
 * ago.  report: what a server there has reported; NULL: nothing. */
void hosts_hint(struct database *db, const struct host *host,
    const struct host_report *report, uint64_t now_us);
/* The host has refused the pool's login with this text.  True: it is left out for a
 * while, because another one serves. */
bool hosts_avoid(struct slot *slot, const char *text, uint64_t now_us);
/* The pool's login has succeeded. */
void hosts_forgive(struct slot *slot);
/* A host that the entry has no more hangs: what is left of it counts as hosts_is_lost.
 */
void hosts_lose(struct database *db, const char *name, int port);
/* Whether the slot's host hangs or is an older primary, and another one serves. */
bool hosts_is_lost(const struct slot *slot);

/* ---- the choice ---- */
/* Begins the balance as if so many clients had been assigned.  Sites begin at different
 * places because each balances only its own clients: otherwise all would send their
 * first clients to the same host. */
void hosts_begin_at(struct hosts *hosts, unsigned place);
/* Returns the host for the pool's next connection. */
struct host *hosts_next(struct pool *pool);
/* Whether a connection may be opened beside the logins under way, because more clients
 * wait and none of these is at its host.  Otherwise the first clients of a cold pool
 * would all go to the host that answers first. */
bool hosts_may_open_beside(const struct pool *pool);
/* Returns a host to which a connection should be opened although no client waits for
 * it: it gets too few clients because it lacks connections.  NULL: none. */
struct host *hosts_wanted(const struct pool *pool);
/* Returns the idle slot for the next client, or NULL. */
struct slot *hosts_idle_slot(const struct pool *pool);
/* Whether the wanted host is so far behind its share that a connection to another host
 * may be closed for it. */
bool hosts_may_replace(const struct pool *pool);
/* Whether the slot is at the host that is furthest ahead of its share. */
bool hosts_may_spare(const struct slot *slot, const struct host *wanted);
/* The slot was lent to a client. */
void hosts_assign(struct slot *slot);

/* ---- what happens to slots; those that carry cancel requests are at no host ---- */
/* The pool's next connection is to this host, and is counted there from now on. */
void hosts_claim(struct pool *pool, struct host *host);
/* A connection to the host is being opened. */
void hosts_dial(struct pool *pool, struct slot *slot, struct host *host);
/* The login has succeeded, or was refused by a server (so the host is reachable). */
void hosts_answered(struct slot *slot);
/* An attempt has failed for a reason that says nothing about the host. */
void hosts_note_error(struct slot *slot, const char *text);
/* Opening the connection takes long: until that ends, other hosts are used. */
void hosts_note_slow(struct slot *slot);
/* The host could not be reached: it is not used for retry_us, or until the monitor says
 * that it is up. */
void hosts_failed(
    struct slot *slot, const char *text, uint64_t retry_us, uint64_t now_us);
/* Handles what a slot's server reports about itself, at the login or later.
 * Connections to hosts that may no longer be used are marked to be closed. */
void hosts_learn(struct slot *slot, const struct host_report *report, uint64_t now_us);
/* Marks the slot to be closed if its host may no longer be used.  Replication
 * connections are kept. */
void hosts_review(struct slot *slot);
/* An error of the server makes its role doubtful: the monitor is asked to look. */
void hosts_doubt(const struct slot *slot, uint64_t now_us);
/* The slot enters or leaves slot->state; to_front: it is lent next. */
void hosts_slot_comes(struct slot *slot, bool to_front);
void hosts_slot_goes(struct slot *slot);
/* The slot is no longer a connection. */
void hosts_slot_ends(struct slot *slot);

#endif
