/*
 * Who may have which server.  Seats (server connections) by state, asks (clients) by
 * queue; every function decides and records, none does I/O.  The broker carries the
 * verdicts out.  protocol.md 9 and 10 say what the decisions are.
 *
 * The owner embeds `struct seat` in a server and `struct ask` in a client.
 */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "pool/catalog.h"
#include "pool/latency.h"
#include "pool/stats.h"

enum seat_state {
	SEAT_NONE, /* not in a pool */
#define STATE(name, ...) SEAT_##name,
#include "pool/states.def"
#undef STATE
	SEAT_STATE_COUNT
};
#define SEAT_BIT(name) (1u << SEAT_##name)

/* Names from states.def. */
const char *seat_state_shown(enum seat_state state);        /* "new" */
const char *seat_state_socket_shown(enum seat_state state); /* "sv_login" */

struct ask;
struct desk;

struct seat {
	struct node node;               /* in pool->seats[state] */
	struct node db_node, user_node; /* in the resting lists while idle or used */
	struct pool *pool;
	struct ask *ask;        /* the client it is lent to */
	struct share *share;    /* of its host; NULL: it carries a cancel request */
	struct node share_node; /* in share->idle while idle */
	uint64_t born_us;       /* launch */
	uint64_t rested_us;     /* when it last came to rest */
	uint64_t tested_us;     /* when its last reset or check query was sent */
	enum seat_state state;
	unsigned
	    cancels_in_flight; /* sent, not yet finished, aimed at this connection */
	bool is_dirty;         /* close at the next release */
	bool is_replication;   /* never shared */
	bool is_probe;         /* logging in to see whether its host serves */
	bool is_misplaced;     /* is_dirty because its host is not to be used */
	bool was_lent;
	bool was_checked; /* the check query has passed, or it has just logged in */
	bool is_carried;  /* it goes to another site, or comes: still counted there */
	unsigned carried_from;      /* ... the site that it comes from */
	enum seat_state carried_as; /* ... its state there */
	/* the owner's: its client left session state behind; reset before it is lent
	 * again, closed when there is no reset query */
	bool needs_reset;
};

enum ask_kind {
	ASK_QUERY,       /* a logged-in client has something to send */
	ASK_WELCOME,     /* a client that logs in needs the server's parameters */
	ASK_AUTH,        /* auth_query on behalf of a client */
	ASK_REPLICATION, /* wants a server of its own */
};

enum ask_state { ASK_OUTSIDE, ASK_RESTING, ASK_WAITING, ASK_LINKED };

struct ask {
	struct node node; /* in pool->clients (resting and linked) or pool->waiting */
	struct node
	    kind_node; /* while waiting: in pool->seekers, newcomers or replicas */
	struct pool *pool;
	struct seat *seat;  /* while linked */
	uint64_t query_us;  /* start of the current query; 0 = none is being timed */
	uint64_t last_us;   /* last message of the client */
	uint64_t queued_us; /* when it began to wait */
	enum ask_kind kind : 8;
	enum ask_state state : 8;
	bool is_logged_in : 1;
};

struct pool {
	struct node node, db_node, user_node;
	struct node idle_node;     /* in catalog->idle_pools */
	struct node counted_node;  /* in catalog->counted */
	struct database *database; /* this and user are the key in the map */
	struct user *user;         /* the pool user */
	/* [SEAT_NONE]: retired, not yet gone; they count nowhere */
	struct list seats[SEAT_STATE_COUNT];
	struct list clients; /* struct ask: logged in, resting or linked */
	struct list waiting; /* struct ask, first come first served */
	/* the waiting ones by what they need, in the same order */
	struct list seekers;   /* a seat: ASK_QUERY, ASK_AUTH */
	struct list newcomers; /* the welcome: ASK_WELCOME */
	struct list replicas;  /* a connection of their own: ASK_REPLICATION */
	struct list cancels_waiting,
	    cancels_active;    /* cancel requests: nodes of the owner */
	struct desk *desk;     /* the broker's, owned by it; NULL: none yet */
	bool is_welcome_valid; /* set by pool_welcomed, cleared by pool_mark_dirty */
	bool last_connect_failed;
	bool last_login_failed; /* ... with an answer of the server: fast failure */
	char failure[100];      /* cached text of the last failure */
	char failure_sqlstate[6];
	char
	    *refusal; /* owned: the text for who waited for the failed login; or NULL */
	char *fast_failure; /* owned: the text for who asks after it; or NULL */
	bool has_wasted;    /* a server was lost before anybody had it */
	bool has_refused;   /* everyone who waits is told refusal */
	bool has_dirty;     /* pool_next has dirty seats to look for */
	bool wants_probe;   /* somebody failed fast: try again though nobody waits */
	uint64_t dial_us;   /* start of the last attempt; 0 = never */
	uint64_t lifetime_closed_us; /* last close for server_lifetime */
	uint64_t idle_since_us;      /* no clients, no servers; 0 = in use */
	unsigned next_host;          /* load_balance_hosts=disable: entry in use */
	struct list shares;          /* owned: struct share, see hosts.h */
	size_t probe_count;          /* seats that are probes */
	size_t wanted_host; /* 1 + index of what hosts_wanted looks at; 0: none */
	uint64_t wanted_lag;
	bool wants_room;    /* the connection to it lacks room */
	bool dials_wanted;  /* VERDICT_DIAL was given for it */
	bool has_logged_in; /* to a server, at least once */
	bool lacks_host;    /* the last failure left no host up */
	bool speaks_3_0;    /* the next connection begins with protocol 3.0, not 3.2 */
	bool is_killed;     /* clients and servers are being closed; freed when empty */
	bool is_kicked;     /* the broker's: work is queued */
	/* see elsewhere.h */
	struct tally *tally; /* held: what all sites count; NULL: nobody else does */
	uint64_t wished_us;  /* another site was asked for a server then; 0: none is */
	bool has_claim;      /* the next seat is counted already */
	/* in the starving heaps: DIAL was impossible because of a limit */
	struct heap_node room_nodes[ROOM_COUNT];
	struct heap_node spare_node; /* in catalog->spare */
	/* SCRAM keys of the client's own login, for passing through; pools without
	 * forced user only */
	struct scram_keys pass_through;
	bool has_pass_through;
	struct secret found; /* by auth_query: see credentials.h; if has_found */
	struct scram_cache found_cache; /* keys derived from it */
	uint64_t found_us;              /* when that query was sent */
	bool has_found;
	struct stats stats;
	struct stats_history history;
	struct latency latency;
};

enum verdict_kind {
	VERDICT_NONE,   /* nothing to do until wake_us (UINT64_MAX: until an event) */
	VERDICT_GRANT,  /* ask and seat are linked now */
	VERDICT_WAIT,   /* ask is queued */
	VERDICT_ADMIT,  /* ask (ASK_WELCOME) may finish its login; it left the queue */
	VERDICT_REFUSE, /* ask left the queue: tell its client text/sqlstate and close
			   it, unless is_full says that it may ask again */
	VERDICT_DIAL,   /* open a server connection: then pool_dialing() */
	VERDICT_CHECK,  /* run server_check_query on seat (now TESTED), then
			   pool_tested() */
	VERDICT_RESET,  /* run server_reset_query on seat (now TESTED), then
			   pool_tested() */
	/* Close seat; text is the reason.  It is out of every list and count already;
	 * seat->pool stays until pool_gone.  ask is who is linked to it (replication
	 * only) */
	VERDICT_RETIRE,
	VERDICT_REST, /* seat is at rest (idle or used); review at wake_us */
	VERDICT_PARK, /* seat waits for cancels in flight (being_canceled) */
	/* Hand seat over to `site`.  It is out of every list, and still counted. */
	VERDICT_HAND,
};

struct verdict {
	enum verdict_kind kind;
	struct ask *ask;
	struct seat *seat;
	const char *text; /* borrowed: literal or the pool's */
	const char *sqlstate;
	uint64_t wake_us;
	unsigned site;   /* HAND */
	bool is_full;    /* REFUSE: max_waiting_clients is reached */
	bool is_reserve; /* DIAL: taken from the reserve (to be logged) */
	/* DIAL for the replication client `ask`: set seat->is_replication and seat->ask
	 * before pool_dialing, which takes it out of the queue and links the two */
	bool is_replication;
};

/*
 * Every change that could give pool_next something to say kicks the pool
 * (catalog_events.kick), also a pool other than the one that was called.
 * Counted here: stats.server_assignment_count and stats.wait_time_us; of latency how
 * long clients wait, and how long connecting takes.
 */

/* ---- clients ---- */
/* A client belongs to the pool from the end of its authentication. */
void pool_join(struct pool *pool, struct ask *ask);
/* It leaves, from any state but linked (give its seat first). */
void pool_part(struct ask *ask);
/* GRANT, WAIT or REFUSE.  ask must have joined and be resting.  Fast: no allocation. */
struct verdict pool_ask(struct ask *ask, enum ask_kind kind, uint64_t now_us);
/* Leave the queue without being served (timeout, gone, cancelled). */
void pool_withdraw(struct ask *ask);

/* ---- what to do next for the queue: call until VERDICT_NONE ---- */
/* GRANT, ADMIT, REFUSE, CHECK, DIAL, RETIRE or NONE.  Covers waiters, pause, shrinking,
 * eviction for limits, min_pool_size, retry spacing, the reserve, shutdown. */
struct verdict pool_next(struct pool *pool, uint64_t now_us);

/* ---- servers ---- */
/* A connection is being opened (after VERDICT_DIAL): seat->share->host says where to.
 */
void pool_dialing(struct pool *pool, struct seat *seat, uint64_t now_us);
/* Login is complete: REST, RETIRE, ... as pool_give without reset. */
struct verdict pool_logged_in(struct seat *seat, uint64_t now_us);
/* The broker keeps the parameters of a server login.  Call it before
 * pool_logged_in, and not for a seat that is_dirty. */
void pool_welcomed(struct pool *pool);
/* Clients can be greeted, perhaps after another site was asked. */
bool pool_has_welcome_somewhere(const struct pool *pool);

enum dial_failure {
	DIAL_NETWORK, /* refused, timeout, DNS, EOF: waiting clients go on waiting */
	DIAL_LOGIN,   /* the server answered with an error, or our secret cannot do */
	DIAL_NOT_YET, /* the server is coming up, or going down: waiting goes on */
	DIAL_UNFIT,   /* its host is not one that is to be used: see hosts_role.h */
};
/* The attempt failed; text and sqlstate are copied.  The seat is retired: pool_gone
 * follows when its connection is closed.  Clients to be refused come out of pool_next;
 * the client of a replication seat is resting afterwards and the caller's to refuse. */
void pool_dial_failed(struct seat *seat, enum dial_failure kind, const char *text,
    const char *sqlstate, uint64_t now_us);

/* The client is done with it (transaction end, or client gone with the server ready).
 * Unlinks.  RETIRE (lifetime, dirty, pause), PARK, RESET, NEXT as GRANT (the longest
 * waiting ask is linked at once), or REST. */
struct verdict pool_give(struct seat *seat, uint64_t now_us);
/* The reset or check query is done well: GRANT, REST, RETIRE. */
struct verdict pool_tested(struct seat *seat, uint64_t now_us);
/* A cancel aimed at it has finished; when it was the last and the seat is parked:
 * the same verdicts as pool_give; otherwise NONE. */
struct verdict pool_cancel_done(struct seat *seat, uint64_t now_us);
/* An idle or used seat's deadline came: RETIRE, or REST with the next wake_us (it may
 * have become used).  To be called for all resting seats after catalog_adopt, whose
 * settings may have moved the deadlines.  NONE for a seat in another state. */
struct verdict pool_review(struct seat *seat, uint64_t now_us);
/* The client left it in a state that nobody else can use: unlinked and retired;
 * pool_gone follows when the connection is closed. */
void pool_abandon(struct seat *seat, uint64_t now_us);
/* The same of one that was lost before its client had sent it anything: that one may
 * ask again. */
void pool_lose_unused(struct seat *seat, uint64_t now_us);
/* Its client has vanished, and the owner tidies up what that one left: unlinked, and
 * still active.  pool_give, pool_abandon or pool_gone follows. */
void pool_orphan(struct seat *seat, uint64_t now_us);
/* It ends without having failed, and another attempt may follow at once. */
void pool_dial_again(struct seat *seat, uint64_t now_us);
/* The connection is closed: leaves the pool from any state, unlinked from its ask
 * (whose state becomes resting).  Harmless for a seat that has left. */
void pool_gone(struct seat *seat, uint64_t now_us);

/* A connection that another process has logged in, to this host (NULL: the unix socket)
 * and port: idle or used, or active and linked to ask.  In *was are its times, as of
 * now here, and its flags.  One whose host the database does not name any more is
 * closed when nobody has it. */
void pool_move_in(struct pool *pool, struct seat *seat, struct ask *ask,
    const struct seat *was, const char *host, int port, uint64_t now_us);

/* What a VERDICT_HAND has given away is on its way: it counts for the other site from
 * now on.  pool_gone follows. */
void pool_carried(struct seat *seat);

/* ---- cancel requests (protocol.md 13) ---- */
/* May one more connection be opened to carry a cancel request? */
bool pool_may_dial_cancel(const struct pool *pool);
/* A connection that carries one: counted as SEAT_ACTIVE_CANCEL.  A seat of this pool
 * that is only connecting may change over to it. */
void pool_dialing_cancel(struct pool *pool, struct seat *seat, uint64_t now_us);

/* ---- state ---- */
/* All its connections close at their next release, idle ones through pool_next; the
 * welcome is forgotten. */
void pool_mark_dirty(struct pool *pool);
/* Only this one of its connections; what is known of the server holds. */
void pool_mark_seat_dirty(struct seat *seat);
bool pool_is_paused(const struct pool *pool);
int pool_mode(const struct pool *pool); /* enum pool_mode in force */
int pool_size(const struct pool *pool); /* 0 = unlimited */
int pool_reserve_size(const struct pool *pool);
int pool_min_size(const struct pool *pool);
/* active + being_canceled + tested: none is left when a PAUSE is complete */
size_t pool_count_in_use(const struct pool *pool);
/* active + being_canceled + idle + tested + used */
size_t pool_connected_count(const struct pool *pool);
/* connected + login + active_cancel */
size_t pool_server_count(const struct pool *pool);
/* Longest wait in the queue, microseconds (0 = nobody waits with a query). */
uint64_t pool_max_wait(const struct pool *pool, uint64_t now_us);
/* What those who wait in it wait for: the setting whose limit leaves no room for
 * another server, "pause", or "connect" for a server that is being opened or cannot be.
 */
const char *pool_waits_for(const struct pool *pool);
/* Frees a pool that has no client, no server and is killed or idle too long. */
bool pool_may_be_freed(const struct pool *pool);

#endif
