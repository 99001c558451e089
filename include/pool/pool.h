/*
 * Decides which client gets which server.  A slot is a server connection as the pool
 * sees it; a request is a client.  Slots are in lists by state, requests are in queues.
 * Every function decides and records; none does I/O: the broker carries out the
 * verdicts. protocol.md 9 and 10 describe the decisions.
 *
 * The owner embeds `struct slot` in a server and `struct pool_request` in a client.
 */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "pool/catalog.h"
#include "pool/credentials.h"
#include "pool/failure.h"
#include "pool/latency.h"
#include "pool/stats.h"

enum slot_state {
	SLOT_NONE, /* not in a pool */
#define STATE(name, ...) SLOT_##name,
#include "pool/states.def"
#undef STATE
	SLOT_STATE_COUNT
};
#define SLOT_BIT(name) (1u << SLOT_##name)

/* The names in states.def. */
const char *slot_state_shown(enum slot_state state);        /* such as "new" */
const char *slot_state_socket_shown(enum slot_state state); /* such as "sv_login" */

/* Whether the connection is closed at its next release, and why: the last of these. */
enum dirty {
	DIRTY_NOT,
	/* it came from another process and exceeds a limit: that is no reason to close
	 * it while its client has it, whatever server_fast_close says */
	DIRTY_SURPLUS,
	DIRTY_OLD, /* RECONNECT, another configuration, or nobody else can use it */
	DIRTY_MISPLACED, /* its host may no longer be used */
};

struct pool_request;
struct runner;

struct slot {
	struct node node; /* in pool->slots[state] */
	/* in the lists of resting slots while idle or used */
	struct node db_node, user_node;
	struct pool *pool;
	struct pool_request *request; /* the client that has it */
	struct pool_host
	    *pool_host;        /* of its host; NULL: it carries a cancel request */
	struct node host_node; /* in pool_host->idle while idle */
	uint64_t born_us;      /* when the connection was begun */
	uint64_t rested_us;    /* when it last became idle or used */
	uint64_t tested_us;    /* when its last reset or check query was sent */
	enum slot_state state;
	/* number of unfinished cancel requests for this connection */
	unsigned cancels_in_flight;
	enum dirty dirty;
	/* belongs to one replication client and is never shared */
	bool is_replication;
	bool is_slow; /* its login takes long: other hosts are used meanwhile */
	bool was_lent, was_given_back;
	bool was_checked; /* the check query has succeeded, or it has just logged in */
	/* it goes to or comes from another site, where it still counts */
	bool is_carried;
	unsigned carried_to;               /* if it goes: the site it goes to */
	struct central_host *carried_from; /* see central_host_carry; NULL: it stays */
	enum slot_state carried_as;        /* if it comes: its state there */
	/* set by the owner: the client left session state behind.  The slot is reset
	 * before it is lent again, or closed when there is no reset query. */
	bool needs_reset;
	bool is_pinned; /* it stays with its client for now: see pins.h */
	/* it listens for all clients of the pool, and so is active until none does */
	bool is_listener;
};

enum request_kind {
	REQUEST_QUERY, /* a client sent a query */
	/* a client logs in and needs the server's parameters */
	REQUEST_PARAMS,
	REQUEST_AUTH,        /* auth_query for a client that logs in */
	REQUEST_REPLICATION, /* a replication client, which gets its own connection */
};

enum request_state {
	REQUEST_OUTSIDE,
	REQUEST_RESTING,
	REQUEST_WAITING,
	REQUEST_LINKED
};

struct pool_request {
	struct node node; /* in pool->clients (resting and linked) or pool->waiting */
	struct node
	    kind_node; /* while waiting: in part.waiters, param_waiters or replicas */
	struct pool *pool;
	struct slot *slot;  /* while linked */
	uint64_t query_us;  /* start of the current query; 0: none is being timed */
	uint64_t last_us;   /* time of the client's last message */
	uint64_t queued_us; /* when it began to wait */
	enum request_kind kind : 8;
	enum request_state state : 8;
	bool is_logged_in : 1;
};

/* Where the pool stands with the limits that pools share (conn_limits.h), and with
 * other workers.  pool_open.c changes the first two, exchange.c the third,
 * conn_limits.c the rest.
 */
struct pool_turn {
	/* since when room is left to a client that has waited longer (0: it is not);
	 * when its pool was last told of the room */
	uint64_t yielded_us, told_us;
	/* since when a server that rests at another worker is asked for; 0: none is */
	uint64_t asked_us;
	bool has_claim;              /* the next slot is already counted */
	struct heap_node spare_node; /* in catalog->spare */
};

/* A server that is past server_lifetime goes on serving until another one, which was
 * opened for that, has taken its place.  pool.c begins it, pool_open.c opens, slots.c
 * notes what leaves.
 */
struct pool_replacement {
	struct slot *old;   /* NULL: none is being replaced */
	struct slot *fresh; /* the new one, until it is ready for clients */
	enum {
		REPLACE_WANTED,  /* another one is to be opened */
		REPLACE_OPENING, /* it is being opened */
		REPLACE_DUE,     /* it is ready, or cannot be had: the old one closes */
	} stage;
	uint64_t closed_us; /* when a server was last closed for server_lifetime */
	uint64_t until_us;  /* when the old one closes in any case */
	uint64_t retry_us;  /* after a failure: none is replaced before that */
};

/* The catalog makes and frees pools.  queue.c changes who waits, slots.c the servers;
 * who changes a part that is a struct is said there. */
struct pool {
	struct node node, db_node, user_node;
	struct node idle_node;     /* in catalog->idle_pools */
	struct node counted_node;  /* in catalog->counted */
	struct database *database; /* database and user are the key in the map */
	struct user *user;         /* the pool user, as whom servers log in */
	/* in [SLOT_NONE]: retired but not yet gone; those count nowhere */
	struct list slots[SLOT_STATE_COUNT];
	struct list clients; /* struct pool_request: logged in, resting or linked */
	struct list waiting; /* struct pool_request: waiting, first come first served */
	/* the waiting requests by what they need, in the same order; those for any slot
	 * (REQUEST_QUERY, REQUEST_AUTH) are in part.waiters */
	struct list param_waiters; /* for the login parameters: REQUEST_PARAMS */
	struct list replicas;      /* for their own connection: REQUEST_REPLICATION */
	struct list cancels_waiting,
	    cancels_active;           /* cancel requests, by nodes of the owner */
	struct runner *runner;        /* owned by the broker; NULL: not made yet */
	struct failure failure;       /* of the last attempt to connect */
	struct lookup_end lookup_end; /* of the last auth_query */
	struct balance balance;       /* over the hosts of the database */
	struct central_part part;     /* what other workers see of it */
	struct pool_turn turn;        /* with limits that pools share */
	struct pool_replacement replacement;
	struct pool_credentials credentials; /* for logins to servers */
	struct stats stats;
	struct stats_history history;
	struct latency latency;
	uint64_t dial_us; /* start of the last attempt to connect; 0: none */
	/* since when there are no clients and servers; 0: in use */
	uint64_t idle_since_us;
	bool has_wasted;    /* a server was lost before any client had it */
	bool sends_away;    /* all that wait now are to be told that it shuts down */
	bool has_dirty;     /* there may be dirty slots for pool_next to retire */
	bool has_sessions;  /* pool_mode was session when pool_review_mode looked */
	bool wants_probe;   /* a client failed fast: try again although nobody waits */
	bool has_logged_in; /* some login to a server has succeeded, or one has moved in
			     */
	/* the next connection begins with protocol 3.0 instead of 3.2 */
	bool speaks_3_0;
	/* clients and servers are being closed; the pool is freed when empty */
	bool is_killed;
	bool is_scheduled; /* set by the broker: the pool is queued for pool_next */
};

enum verdict_kind {
	VERDICT_NONE,  /* nothing to do until wake_us (UINT64_MAX: until an event) */
	VERDICT_GRANT, /* request and slot are linked now */
	VERDICT_WAIT,  /* request is queued */
	/* request (REQUEST_PARAMS) has left the queue and may finish its login */
	VERDICT_ADMIT,
	/* request has left the queue: send its client text and sqlstate and close it,
	 * unless is_full, when it may ask again */
	VERDICT_REFUSE,
	VERDICT_DIAL, /* open a server connection, then call pool_dialing */
	/* run server_check_query on slot (now TESTED), then call pool_tested */
	VERDICT_CHECK,
	/* run server_reset_query on slot (now TESTED), then call pool_tested */
	VERDICT_RESET,
	/* give slot (now TESTED) the prepared statements of `model`, then call
	 * pool_tested */
	VERDICT_PREPARE,
	/* Close slot; text is the reason.  It is already out of every list and count,
	 * but slot->pool stays until pool_gone.  request is the client linked to it
	 * (replication only). */
	VERDICT_RETIRE,
	VERDICT_REST, /* slot is idle or used; call pool_review at wake_us */
	/* slot waits until its cancel requests are finished (being_canceled) */
	VERDICT_PARK,
	/* Hand slot over to `site`.  It is out of every list, but still counted. */
	VERDICT_HAND,
};

struct verdict {
	enum verdict_kind kind;
	struct pool_request *request;
	struct slot *slot;
	const struct slot *model;
	const char *text; /* borrowed: a literal, or owned by the pool */
	const char *sqlstate;
	uint64_t wake_us;
	unsigned site;   /* for HAND */
	bool is_full;    /* for REFUSE: max_waiting_clients is reached */
	bool is_reserve; /* for DIAL: taken from the reserve (to be logged) */
	/* For DIAL: it is for the replication client `request`.  Set
	 * slot->is_replication and slot->request before pool_dialing, which takes the
	 * client out of the queue and links the two. */
	bool is_replication;
};

/*
 * Every change that could make pool_next return something schedules the pool
 * (catalog_events.schedule), also pools other than the one in the call.
 *
 * Counted here: stats.server_assignment_count and stats.wait_time_us, and in latency
 * how long clients wait and how long connecting takes.
 */

/* ---- clients ---- */
/* A client joins the pool at the end of its authentication. */
void pool_join(struct pool *pool, struct pool_request *request);
/* The client leaves, in any state except linked (give its slot back first). */
void pool_part(struct pool_request *request);
/* Asks for what kind needs.  Returns GRANT, WAIT or REFUSE.  request must have joined
 * and be resting.  Fast: it does not allocate. */
struct verdict pool_ask(
    struct pool_request *request, enum request_kind kind, uint64_t now_us);
/* Leaves the queue without being served (timeout, client gone, or cancelled). */
void pool_withdraw(struct pool_request *request);

/* ---- what to do next for the queue: call until VERDICT_NONE ---- */
/* Decides the next thing to do: GRANT, ADMIT, REFUSE, CHECK, DIAL, RETIRE or NONE.
 * Covers waiting clients, pauses, shrinking, eviction for limits, min_pool_size, the
 * time between attempts, the reserve, and shutdown. */
struct verdict pool_next(struct pool *pool, uint64_t now_us);

/* ---- servers ---- */
/* A connection is being opened after VERDICT_DIAL; slot->pool_host->host says to which
 * host. */
void pool_dialing(struct pool *pool, struct slot *slot, uint64_t now_us);
/* The login is complete: REST, RETIRE and others, as from pool_give without reset. */
struct verdict pool_logged_in(struct slot *slot, uint64_t now_us);
/* The broker has kept the parameters of a server login.  To be called before
 * pool_logged_in, but not for a slot that is dirty. */
void pool_got_login_params(struct pool *pool);
/* Clients can be greeted, because a server has logged in at some worker. */
bool pool_has_login_params(const struct pool *pool);
/* How many clients wait in this pool, at all workers. */
size_t pool_queued_everywhere(const struct pool *pool);

enum dial_failure {
	DIAL_NETWORK, /* refused, timeout, DNS, EOF: clients go on waiting */
	/* the server answered with an error, or our secret is unsuitable */
	DIAL_LOGIN,
	/* the server is starting up or shutting down: clients go on waiting */
	DIAL_NOT_YET,
	/* there was no password to log in with: the program or file that gives it has
	 * failed, and clients are not told how */
	DIAL_PASSWORD,
	/* there was no Kerberos ticket to log in with: clients are told why */
	DIAL_TICKET,
	DIAL_UNFIT, /* the host may not be used: see hosts_role.h */
};
/* The attempt to connect has failed; text and sqlstate are copied.  The slot is
 * retired, and pool_gone follows when its connection is closed.  Clients to be refused
 * come out of pool_next.  The client of a replication slot is resting afterwards; the
 * caller refuses it. */
void pool_dial_failed(struct slot *slot, enum dial_failure kind, const char *text,
    const char *sqlstate, uint64_t now_us);

/* The client no longer needs the slot (its transaction ended, or it is gone and the
 * server is ready).  Unlinks them.  Returns RETIRE (lifetime, dirty, pause), PARK,
 * RESET, GRANT (linked at once to the request that has waited longest), HAND or REST.
 */
struct verdict pool_give(struct slot *slot, uint64_t now_us);
/* The reset or check query has succeeded: GRANT, REST or RETIRE. */
struct verdict pool_tested(struct slot *slot, uint64_t now_us);
/* A cancel request for the slot has finished.  If it was the last one and the slot is
 * parked: the same verdicts as pool_give; otherwise NONE. */
struct verdict pool_cancel_done(struct slot *slot, uint64_t now_us);
/* The time given with REST has come: RETIRE, or REST with the next time (the slot may
 * have become used).  To be called for all resting slots after catalog_adopt too,
 * because settings may have changed the times.  NONE for a slot in another state. */
struct verdict pool_review(struct slot *slot, uint64_t now_us);
/* The client left the slot in a state that nobody else can use: unlinks and retires it;
 * pool_gone follows when the connection is closed. */
void pool_abandon(struct slot *slot, uint64_t now_us);
/* Like pool_abandon, for a connection that was lost before its client had sent anything
 * on it, so that the client may ask again. */
void pool_lose_unused(struct slot *slot, uint64_t now_us);
/* The client has disappeared, and the owner cleans up what it left: unlinks the slot,
 * which stays active.  pool_give, pool_abandon or pool_gone follows. */
void pool_orphan(struct slot *slot, uint64_t now_us);
/* The attempt ends without having failed, and another one may follow at once. */
void pool_dial_again(struct slot *slot, uint64_t now_us);
/* The connection is closed: the slot leaves the pool from any state and is unlinked
 * from its request (which is then resting).  Does nothing for a slot that has left. */
void pool_gone(struct slot *slot, uint64_t now_us);

/* Adds a connection that another process has logged in, at this host (NULL: the Unix
 * socket) and port: idle or used, or active and linked to ask.  *was has its times (in
 * terms of this process's clock) and flags.  If the database no longer has that host,
 * the connection is closed when no client has it. */
void pool_move_in(struct pool *pool, struct slot *slot, struct pool_request *request,
    const struct slot *was, const char *host, int port, uint64_t now_us);

/* The slot of a VERDICT_HAND is on its way: from now on it counts for the other site.
 * pool_gone follows. */
void pool_carried(struct slot *slot);

/* ---- cancel requests (protocol.md 13) ---- */
/* Whether one more connection may be opened to carry a cancel request. */
bool pool_may_dial_cancel(const struct pool *pool);
/* Adds a connection that carries a cancel request; it counts as SLOT_ACTIVE_CANCEL.  A
 * slot of this pool that is still connecting may be changed into one. */
void pool_dialing_cancel(struct pool *pool, struct slot *slot, uint64_t now_us);

/* ---- state ---- */
/* Marks all connections of the pool to be closed at their next release, idle ones
 * through pool_next; the login parameters are forgotten. */
void pool_mark_dirty(struct pool *pool);
/* Marks only this connection; the login parameters stay valid. */
void pool_mark_slot_dirty(struct slot *slot, enum dirty why);
/* Called for a new pool, and when pool_mode may have changed.  After a change no client
 * meets the session state of another one: servers in use are reset when they leave
 * session mode, and servers at rest are replaced when session mode begins. */
void pool_review_mode(struct pool *pool);
bool pool_is_paused(const struct pool *pool);
int pool_mode(const struct pool *pool); /* the enum pool_mode in force */
int pool_size(const struct pool *pool); /* 0: unlimited */
int pool_reserve_size(const struct pool *pool);
int pool_min_size(const struct pool *pool);
/* active + being_canceled + tested.  A PAUSE is complete when it is 0. */
size_t pool_count_in_use(const struct pool *pool);
/* active + being_canceled + idle + tested + used */
size_t pool_connected_count(const struct pool *pool);
/* connected + login + active_cancel */
size_t pool_server_count(const struct pool *pool);
/* The longest wait in the queue in microseconds; 0: no query waits. */
uint64_t pool_max_wait(const struct pool *pool, uint64_t now_us);
/* When the last attempt to connect to a server began; 0: there was none, or one is
 * under way.  *failure: why it has failed; NULL: it has not. */
uint64_t pool_last_attempt(const struct pool *pool, const char **failure);
/* What the waiting clients wait for: the setting whose limit is reached, "pause", or
 * "connect" when a server is being opened or cannot be reached. */
const char *pool_waits_for(const struct pool *pool);
/* Whether a pool that has been idle for too long need not stay. */
bool pool_may_be_freed(const struct pool *pool);

#endif
