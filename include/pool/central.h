/*
 * What all workers of a process share of their pools, so that these are one pool: who
 * waits, in order; how many servers there are, and where they rest; limits; the
 * parameters with which a pool greets its clients.  There is one object for each pool,
 * user and database, found by name, and one for the process.  One lock protects them
 * all.  It is held for microseconds, and never across a system call: what is told to
 * another worker meanwhile is posted when the lock is released.
 *
 * With one worker the same code runs, and nobody else ever holds the lock.
 */
#ifndef POOL_CENTRAL_H
#define POOL_CENTRAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/heap.h"
#include "base/list.h"
#include "net/mailbox.h"
#include "pool/kept.h"

struct catalog;
struct listen_senders;

/* Limits that several pools share, the narrowest first. */
enum conn_limit {
	CONN_LIMIT_USER,     /* max_user_connections */
	CONN_LIMIT_DATABASE, /* max_db_connections */
	CONN_LIMIT_PROCESS,  /* max_server_connections */
	CONN_LIMIT_COUNT,    /* the number of limits; as a value: no limit */
};

/* How long a worker may leave its messages unopened, or a server may be on its way,
 * before nobody waits for it any more.  A thread that only waits for a processor is
 * quicker. */
enum { CENTRAL_PATIENCE_US = 50000 };

/* What the objects have in common. */
struct central_name {
	enum { CENTRAL_LIMIT, CENTRAL_POOL, CENTRAL_HOST } type;
	enum conn_limit kind; /* of a limit */
	unsigned refs;
	unsigned holders; /* workers that have it, which are among the references */
	char *key; /* owned; NULL: there is one worker, and nobody looks for it */
	size_t key_len;
	bool is_told;         /* see central_claim_news */
	atomic_bool has_kept; /* kept is not NULL */
	struct kept *kept;    /* what freed pools have counted, left for others */
};

/* A count that one worker writes, on a cache line of its own. */
struct central_line {
	atomic_int resting; /* servers at rest that count against the limit */
	char unused[64 - sizeof(atomic_int)];
};

/* A user, a database or the process. */
struct central_limit {
	struct central_name name;
	/* changed under the lock: of all workers, also what is on its way */
	atomic_int servers, clients;
	atomic_int pinned; /* servers, of all workers: see pins.h */
	/* protected by the lock */
	int most;             /* servers allowed, when a pool last waited for room */
	struct heap starving; /* struct central_part by .rooms: they wait for room */
	/* one for each worker; none with one worker */
	struct central_line lines[];
};

/* What other workers see of the pool that one worker has. */
struct central_part {
	struct central_pool *whole; /* one reference */
	unsigned worker;
	bool is_alone; /* there is one worker, so nobody looks for servers at rest */
	/* servers, and clients that have joined; only its worker writes these */
	atomic_int resting, connected, clients;
	/* protected by the lock; only its worker changes them, and so may read them
	 * without it */
	struct list
	    waiters; /* struct pool_request by .kind_node: they wait for any server */
	/* those that wait since then or longer are due: their worker has looked for a
	 * server.  By the clock of another worker they may not be due yet. */
	uint64_t looked_us;
	bool wants_params; /* clients wait for the parameters */
	bool is_closed;    /* it is paused, so its clients get no server */
	struct heap_node rooms[CONN_LIMIT_COUNT]; /* in the heaps of its limits */
	unsigned wanted; /* the set of limits in whose heaps it is; its worker's own */
	bool is_told;    /* a message asks its worker to look at the pool */
};

/* The place of one worker in a pool, protected by the lock. */
struct central_place {
	struct central_part *part; /* NULL: it has no such pool */
	int arriving;              /* servers that are on their way to it */
	uint64_t arriving_us;      /* when the last of them was sent */
};

/* A pool over all workers. */
struct central_pool {
	struct central_name name;
	struct central_limit *limits[CONN_LIMIT_COUNT]; /* one reference to each */
	atomic_int waiting; /* waiters of all parts; changed under the lock */
	atomic_int clients; /* that have joined the pool, at all workers */
	/* servers that have logged in, at all workers or on their way */
	atomic_int connected;
	/* changed under the lock: servers, also those being opened and cancel requests;
	 * and clients that wait for anything */
	atomic_int servers, queued;
	atomic_int pinned; /* servers, at all workers: see pins.h */
	/* the connection that listens for its clients; 0: none (relay/listen_hub.h) */
	atomic_ullong listener;
	/* The parameters with which clients are greeted. */
	struct {
		atomic_uint number; /* changes with the text; 0: there is none */
		unsigned last;      /* the last number that was given */
		/* broadcasts (workers.h): the last one of the worker that wrote the
		 * text, and the last one that has forgotten a text */
		unsigned broadcast, forgotten;
		unsigned writer; /* the worker */
		struct buf text; /* as broker/login_params has put it */
	} login_params;
	struct central_place places[]; /* by worker */
};

/* A host, of one database or of all. */
struct central_host {
	struct central_name name;
	atomic_int servers; /* connections of the database there, of all workers */
	/* connections by turns, protected by the lock: see broker/dial_turn.h */
	uint64_t last_us;      /* the last connect; 0: none */
	uint64_t waiting_us[]; /* by worker: since when its first one waits; 0: none */
};

typedef bool central_unresponsive_fn(void *ctx, unsigned worker);

/* Everything of the process. */
struct central {
	pthread_mutex_t lock;
	struct map *by_name;
	unsigned worker_count;
	atomic_int starving; /* parts in heaps, counted once for each heap */
	atomic_bool is_frozen;
	/* NULL: all workers answer */
	central_unresponsive_fn *is_unresponsive;
	void *unresponsive_ctx;
	/* owned, one block: see session/listen_sender.h; NULL: nobody has listened yet
	 */
	_Atomic(struct listen_senders *) listen_senders;
};

enum note_kind {
	NOTE_LOOK,      /* look at this pool again */
	NOTE_GIVE_UP,   /* close a server at rest of this pool */
	NOTE_MAKE_ROOM, /* close a server at rest that counts against this limit */
};

/* A message of a worker to another one. */
struct central_note {
	struct thread_message message;
	struct central *central;
	unsigned worker; /* the receiver */
	void *ctx;       /* of whoever posts it */
	enum note_kind kind;
	/* one reference to one of them */
	struct central_pool *pool;
	struct central_limit *limit;
};

/* The place of one worker's catalog. */
struct central_view {
	struct central *central;
	unsigned worker;
	bool is_owner;      /* the catalog has made `central` for itself */
	bool serves_nobody; /* the worker has no clients, so it keeps no servers */
	unsigned depth;     /* how often it holds the lock */
	/* the last broadcast that the worker has carried out, see workers.h */
	unsigned broadcast;
	/* owned: what is to be posted when the lock is released */
	struct central_told {
		unsigned worker;
		enum note_kind kind;
		struct central_pool *pool;
		struct central_limit *limit;
	} * told;
	size_t told_count, told_size;
	/* Sends a note, which central_note_free frees.  Set by the broker; never called
	 * with one worker. */
	void (*post)(void *ctx, struct central_note *note);
	void *post_ctx;
};

struct central *central_new(unsigned worker_count);
void central_free(struct central **c); /* there must be no references */
/* Sets the function that says whether a worker does not answer, and must not be counted
 * upon.  It is called on any thread, under the lock. */
void central_on_unresponsive(struct central *c, central_unresponsive_fn *fn, void *ctx);
/* While frozen, no server connection is begun and none changes workers, so that reading
 * the workers one after the other gives consistent numbers. */
void central_freeze(struct central *c, bool is_frozen);
bool central_is_frozen(const struct central *c);

/* A worker may lock several times, and unlocks as often. */
void central_lock(struct central_view *view);
void central_unlock(struct central_view *view);
/* Under the lock: posts a note to another worker when the lock is released.  A
 * NOTE_LOOK that was posted and not opened is not repeated. */
void central_tell(struct central_view *view, unsigned worker, enum note_kind kind,
    struct central_pool *pool, struct central_limit *limit);
/* To be called by the receiver of a note. */
void central_note_free(struct central_note *note);
/* Whether another worker does not answer.  The own one always does. */
bool central_is_unresponsive(const struct central_view *view, unsigned worker);

/* Each returns the object with a reference, and makes it if needed.  It lives while
 * there are references, or servers or clients are counted in it.  name is ignored for
 * CONN_LIMIT_PROCESS. */
struct central_limit *central_limit_hold(
    struct central_view *view, enum conn_limit kind, const char *name);
struct central_pool *central_pool_hold(struct central_view *view, const char *database,
    const char *user, struct central_limit *const limits[CONN_LIMIT_COUNT]);
/* database "": for all databases. */
struct central_host *central_host_hold(
    struct central_view *view, const char *database, const char *host);
/* *p is NULL afterwards; it may be NULL before. */
void central_limit_release(struct central_view *view, struct central_limit **p);
void central_pool_release(struct central_view *view, struct central_pool **p);
void central_host_release(struct central_view *view, struct central_host **p);
/* A reference of what is on its way. */
struct central_pool *central_pool_ref(struct central_view *v, struct central_pool *p);
void central_pool_unref(struct central_view *view, struct central_pool **p);
/* One of its servers goes to another worker, and counts here until
 * central_host_carried.
 */
struct central_host *central_host_carry(struct central_view *v, struct central_host *h);
/* *h is NULL afterwards; it may be NULL before. */
void central_host_carried(struct central_view *v, struct central_host **h);
/* Calls fn with the database of each pool of any worker; a database may come several
 * times. */
typedef void central_database_fn(void *ctx, const char *database);
void central_each_database(struct central *c, central_database_fn *fn, void *ctx);

/* For events that several workers notice one after the other.  central_claim_news: true
 * for the first that calls it.  central_is_last: whether no other has it. */
bool central_claim_news(struct central_view *view, struct central_name *name);
bool central_is_last(struct central_view *view, const struct central_name *name);

/* ---- the parameters with which clients are greeted ---- */

/* The number of the text; 0: there is none, so that some server has to log in first.
 * Needs no lock. */
static inline unsigned central_login_params(const struct central_pool *pool)
{
	return atomic_load_explicit(&pool->login_params.number, memory_order_acquire);
}
/* Appends the text to out, and returns its number. */
unsigned central_read_login_params(
    struct central_view *view, struct central_pool *pool, struct buf *out);
/* Writes another text, and takes over its memory; NULL: there is one worker, which
 * needs none.  False: another worker has written one since the one with this number;
 * read that first.  What a worker writes that has yet to carry out a broadcast which
 * forgets the text is not kept, and *number is 0 then. */
bool central_write_login_params(struct central_view *view, struct central_pool *pool,
    unsigned *number, struct buf *text);
/* A server has told the own worker the same, so that broadcasts which this worker has
 * carried out already do not make it obsolete at others. */
void central_confirm_login_params(struct central_view *view, struct central_pool *pool);
/* The own worker carries a broadcast out which makes it obsolete.  What a worker has
 * written that has done so already stays. */
void central_forget_login_params(struct central_view *view, struct central_pool *pool);

/* What freed pools have counted: leaves it for other workers (*kept is NULL then), and
 * adds to *kept what others have left, which is cheap if that is nothing. */
void central_leave(
    struct central_view *view, struct central_name *name, struct kept **kept);
void central_take(
    struct central_view *view, struct central_name *name, struct kept **kept);

/* Adds to a count that no other worker changes: without a locked instruction. */
static inline void central_add_own(atomic_int *count, int change)
{
	atomic_store_explicit(count,
	    atomic_load_explicit(count, memory_order_relaxed) + change,
	    memory_order_relaxed);
}
static inline int central_read(const atomic_int *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

#endif
