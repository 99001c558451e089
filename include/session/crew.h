/*
 * The workers of one process.  Each worker is a thread with a loop and a site of its
 * own, which serves its clients without asking anybody.  The control thread has a site
 * as well: it accepts connections and gives each to a worker, runs the console, and
 * handles signals, reloads and takeovers.  What concerns all sites it does by calls: a
 * function runs on each worker's thread between two handlers, while the control thread
 * waits.
 *
 * With one worker there is no crew (site->crew is NULL): the only site does everything,
 * on the main thread.
 */
#ifndef SESSION_CREW_H
#define SESSION_CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/mailbox.h"
#include "session/site.h"

/* More threads than this would wait for each other more than they work. */
enum { CREW_MOST = 64 };

/* Prepared texts that one site makes while the process lives.  Their ids tell the sites
 * apart, for a server may be used by one after the other. */
#define CREW_TEXTS_MOST (UINT64_C(1) << 40)

struct crew;

/* What a site is to the others.  Hangs from site->crew. */
struct crew_member {
	struct crew *crew;
	struct site *site;
	struct mailbox *mailbox;
	unsigned index; /* of the control site: the number of workers */
	/* Client sockets that it has, or that are on their way to it. */
	_Alignas(64) atomic_uint client_count;
	/* It did not answer the last call in time, and has not done so since. */
	atomic_bool is_silent;
	/* New connections that it has taken; and, of the control thread: those that it
	 * was given, and how many it had taken when that was looked at last. */
	atomic_uint taken_count;
	unsigned given_count, seen_count;
	uint64_t seen_us;
	/* One of those that were on their way is there, and will be a client in a
	 * moment; its own thread's, as the next. */
	bool has_arrival;
	unsigned order; /* the last one that it has carried out */
};

struct passage;
struct pool;
struct server;
struct wish;

/* What floors above and below do with letters; set by daemon. */
struct crew_ops {
	/* A connection that another site has accepted has come. */
	void (*admit)(struct site *site, struct passage *passage);
	/* The server, which has left its pool, goes to another site. */
	void (*hand)(struct server *server, unsigned site);
	/* The pool floor wants something of another site. */
	void (*wish)(struct site *from, unsigned to, const struct wish *wish);
	/* Other sites wait for this pool's welcome, which is known now. */
	void (*welcomed)(struct pool *pool);
};

struct crew {
	const struct crew_ops *ops;
	struct tallies *tallies;   /* owned: what limits count for all sites */
	struct workers_door *door; /* one reference: of helper threads of all sites */
	unsigned worker_count;
	unsigned last_picked; /* the control thread's, as the next */
	unsigned last_order;  /* that was given */
	pthread_mutex_t told_lock;
	struct map *told; /* struct told by name, under the lock */
	/* All client sockets; one that goes from site to site counts once. */
	_Alignas(64) atomic_uint client_count;
	struct crew_member members[CREW_MOST + 1];
};

struct crew *crew_new(unsigned worker_count);
/* Nobody runs any more. */
void crew_free(struct crew **crew);

/* The site takes this place; called on its own thread, when its loop is there.  The
 * control site comes first, and starts the others.  -1 and err: no descriptor. */
int crew_join(struct crew *crew, unsigned index, struct site *site, struct err *err);
/* On its own thread, when nobody posts to it any more. */
void crew_leave(struct site *site);

static inline struct crew_member *crew_control(struct crew *crew)
{
	return &crew->members[crew->worker_count];
}
/* Is this the site of the control thread, or the only one? */
bool crew_is_control(const struct site *site);
/* The workers and the control site; 1 without a crew. */
unsigned crew_site_count(const struct site *site);

/* ---- letters ---- */

/* The letter is opened on the member's thread. */
void crew_post(struct crew_member *to, struct letter *letter);

/* ---- calls ---- */

typedef void crew_fn(struct site *site, void *ctx);

/* Runs fn for one member, on its thread, and waits for its end; the control thread
 * calls.  False: the worker is busy with something so long that it did not begin in
 * time; fn is not run then. */
bool crew_call(struct crew_member *member, crew_fn *fn, void *ctx);
/* Runs fn for each site there is, one after the other, and for the caller's own last.
 * Returns how many did not answer. */
unsigned crew_each(struct site *site, crew_fn *fn, void *ctx);
/* The same with the caller's own first. */
unsigned crew_each_own_first(struct site *site, crew_fn *fn, void *ctx);

typedef void crew_site_fn(struct site *site);
typedef void crew_order_fn(struct site *site, const void *what);

/* Runs fn for each site there is, the caller's own last.  A worker that does not answer
 * runs it as soon as it can, before all that it is asked for later. */
void crew_all(struct site *site, crew_site_fn *fn);
/* The same with something to read, of which such a worker gets a copy. */
void crew_order(struct site *site, crew_order_fn *fn, const void *what, size_t size);

/* Such orders have numbers, for what changes sites while one is given: if it left a
 * site that had not carried the order out, and comes to one that has, the order has
 * missed it.  An order that is given in another way than by these functions begins with
 * crew_begin_order, and each site says crew_end_order. */
unsigned crew_begin_order(struct site *control);
void crew_end_order(struct site *site, unsigned order);
/* What left its site after that order, and before the next: has one missed it? */
static inline bool crew_has_missed(const struct crew_member *member, unsigned order)
{
	return (int)(member->order - order) > 0;
}

/* ---- what is told once ---- */

/* Several sites come to know the same of something, one after the other: true for the
 * first that brings this value, and for that site again. */
bool crew_may_tell(struct site *site, const char *what, uint64_t value);

/* ---- clients ---- */

/* The worker that has the fewest clients, of those that answer; it counts one more from
 * now on.  The control thread asks. */
struct crew_member *crew_pick(struct crew *crew, uint64_t now_us);
/* A new connection goes to the member, on the control thread; it has come. */
void crew_given(struct crew_member *member);
void crew_taken(struct crew_member *member);
/* A client socket of this site begins or ends to be one; nothing happens without a
 * crew. */
void crew_count_client(struct site *site, int change);
/* A client of this site is on its way to another: it is one of that site's from now on,
 * and none of this one, whose struct client may live a little longer. */
void crew_client_goes(struct site *site, struct crew_member *to);
/* One that was on its way has come, and the next client that begins is it.  After the
 * end there is none that was not counted, also if nothing has begun. */
void crew_arrival_begins(struct crew_member *member);
void crew_arrival_ends(struct crew_member *member);
/* Client sockets of all sites. */
size_t crew_client_count(const struct site *site);

#endif
