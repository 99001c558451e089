/*
 * The workers of one process.  Each worker is a thread with a loop and a site of its
 * own, which serves its clients without asking anybody.  The control thread has a site
 * as well: it accepts connections and gives each to a worker, runs the console, and
 * handles signals, reloads and takeovers.  What concerns all sites it does by calls: a
 * function runs on each worker's thread between two handlers, while the control thread
 * waits.
 *
 * With one worker site->worker is NULL: the only site does everything, on the main
 * thread.
 */
#ifndef SESSION_WORKERS_H
#define SESSION_WORKERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "net/mailbox.h"
#include "session/site.h"

/* With more threads they would mostly wait for each other. */
enum { WORKERS_MOST = 64 };

struct workers;

/* The place of a site among the workers: site->worker.  The control thread has one as
 * well, the last. */
struct worker {
	struct workers *workers;
	struct site *site;
	struct mailbox *mailbox;
	unsigned index; /* 0 for the first worker; of the control site: the number of
			   workers */
	/* client sockets that it has, or that are on their way to it */
	_Alignas(64) atomic_uint client_count;
	/* it did not answer the last call in time, and has not answered since */
	atomic_bool is_silent;
	/* used by the control thread only: it has much more to do than others */
	bool is_overworked;
	/* An arriving client is already among client_count: it must not be counted
	 * again.  Its own thread's, as the next. */
	bool has_arrival;
	unsigned broadcast; /* the last one that it has carried out, or does now */
	/* connections that it sent to others a moment ago and that they may not have
	 * taken (session/dispatch) */
	struct list given;
	struct deadline look;
};

struct client;

/* Functions of other floors that are called here; set by daemon. */
struct workers_ops {
	/* A new connection, which the control site has accepted, has arrived: takes the
	 * descriptor over. */
	void (*admit)(
	    struct site *site, int fd, const struct sock_addr *remote, bool is_unix);
	/* A client has arrived that another site has sent with its first packet, which
	 * is shown to the functions that it gets here. */
	void (*readmit)(struct client *client);
};

struct workers {
	const struct workers_ops *ops;
	struct central *central; /* owned: what all sites share of their pools */
	/* one reference to each: texts of named Parses, and of PREPARE */
	struct prepared_store *texts, *sql_texts;
	struct reported_names *reported_names; /* one reference */
	/* one reference: for work that only one helper thread of all sites may do at a
	 * time */
	struct helpers_mutex *mutex;
	struct cancel_keys *cancel_keys;    /* owned: of the clients of all sites */
	struct passwords_kept *passwords;   /* owned: see session/passwords.h */
	struct oauth_issuers_kept *issuers; /* owned: see session/oauth_issuers.h */
	struct ticket_table *tickets;       /* owned: see session/tickets.h */
	struct strangers *strangers;        /* owned: likewise */
	struct memory_limit *memory_limit;
	unsigned worker_count;
	unsigned last_picked;    /* used by the control thread only, as the next one */
	unsigned last_broadcast; /* that was given */
	pthread_mutex_t logged_lock;
	struct map *logged; /* struct logged_event by name, protected by logged_lock */
	/* client sockets of all sites; one on its way from site to site counts once */
	_Alignas(64) atomic_uint client_count;
	struct worker members[WORKERS_MOST + 1];
};

struct workers *workers_new(unsigned worker_count);
/* Call it when no other thread runs any more. */
void workers_free(struct workers **workers);

/* The site takes its place; call it on the site's thread, when its loop
 * exists.  The control site joins first.  -1 and err: no descriptor. */
int workers_join(
    struct workers *workers, unsigned index, struct site *site, struct err *err);
/* Call it on the site's thread, when no thread posts messages to it any more. */
void workers_leave(struct site *site);

static inline struct worker *workers_control(struct workers *workers)
{
	return &workers->members[workers->worker_count];
}
/* Is this the site of the control thread, or the only one? */
bool workers_is_control(const struct site *site);
/* The workers and the control site; 1 with one worker. */
unsigned workers_site_count(const struct site *site);
/* The site's index among the workers; 0 with one worker. */
static inline unsigned workers_place(const struct site *site)
{
	return site->worker ? site->worker->index : 0;
}

/* Whether this worker does not answer: it has missed the last call, or leaves its
 * messages unhandled.  Any thread may ask.  The control site always answers. */
bool workers_is_unresponsive(const struct workers *workers, unsigned index);

/* ---- messages ---- */

/* Sends a message, which is handled on the member's thread. */
void workers_post(struct worker *to, struct thread_message *message);

/* ---- calls ---- */

typedef void workers_fn(struct site *site, void *ctx);

/* Runs fn for one member, on the member's thread, and waits for its end.  Only the
 * control thread may call it.  False: the worker did not begin in time, and fn was not
 * run. */
bool workers_call(struct worker *member, workers_fn *fn, void *ctx);
/* Runs fn for each site, one after the other, the caller's own as the last one. Returns
 * how many did not answer. */
unsigned workers_each(struct site *site, workers_fn *fn, void *ctx);
/* The same with the caller's own as the first one. */
unsigned workers_each_own_first(struct site *site, workers_fn *fn, void *ctx);

typedef void workers_site_fn(struct site *site);
typedef void workers_broadcast_fn(struct site *site, const void *what);

/* Runs fn for each site, the caller's own as the last one.  A worker that does not
 * answer runs it as soon as it can, before anything that it is asked for later. */
void workers_all(struct site *site, workers_site_fn *fn);
/* The same with data for fn, size bytes, of which such a worker gets a copy. */
void workers_broadcast(
    struct site *site, workers_broadcast_fn *fn, const void *what, size_t size);

/* The same with what outdates no connection that is between two sites. */
void workers_spread(
    struct site *site, workers_broadcast_fn *fn, const void *what, size_t size);

/* For any site: runs fn for this member as soon as it can, with a copy of the data. */
void workers_send(
    struct worker *to, workers_broadcast_fn *fn, const void *what, size_t size);
/* For any site: runs fn for this one now, and for each other one as soon as it can. */
void workers_tell(struct site *site, workers_site_fn *fn);

/* Broadcasts have numbers, for what changes sites while one is given: if it left a
 * site that had not carried it out, and comes to one that has, it has missed it.  Each
 * site says workers_follow_broadcast before it carries one out. */
unsigned workers_begin_broadcast(struct site *control);
void workers_follow_broadcast(struct site *site, unsigned number);
/* Has the receiver of a connection applied a broadcast that its sender had not applied
 * when it sent it? */
static inline bool workers_has_missed(const struct worker *member, unsigned number)
{
	return (int)(member->broadcast - number) > 0;
}

/* ---- events that only one site logs ---- */

/* May this site log an event that all sites notice one after the other?  True for the
 * first site with this value, and for the same site again. */
bool workers_log_once(struct site *site, const char *what, uint64_t value);

/* ---- clients ---- */

/* The worker with the fewest clients among those that answer, where a client of one
 * that is overworked counts double; it counts one more client from now on.  Only the
 * control thread may call it. */
struct worker *workers_pick(struct workers *workers);
/* The member does not get the client for which it was picked. */
void workers_unpick(struct worker *member);
/* Counts a client socket that this site gets (1) or closes (-1).  Does nothing with
 * one worker. */
void workers_count_client(struct site *site, int change);
/* A client of this site is on its way to another and counts there from now on. */
void workers_client_goes(struct site *site, struct worker *to);
/* A connection that was counted on its way has arrived: the client that is made between
 * these two calls is not counted again.  If none is made, the count is corrected. */
void workers_arrival_begins(struct worker *member);
void workers_arrival_ends(struct worker *member);
/* Client sockets of all sites. */
size_t workers_client_count(const struct site *site);

#endif
