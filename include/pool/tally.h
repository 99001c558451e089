/*
 * Counts that the catalogs of several workers share, so that a limit holds for all of
 * them together.  A tally has the counts for one pool, one database, one user, the
 * process, or one host at which connections are opened by turns.  Each site has a slot
 * in it; the sum is computed by adding up the slots.  Only that site changes it, except
 * when a server or client goes from site to site.
 *
 * A site that is about to take more of something limited holds the lock from reading
 * the sum until it has changed its slot, so that the limit is never exceeded.  Giving
 * back needs no lock.
 */
#ifndef POOL_TALLY_H
#define POOL_TALLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "pool/kept.h"

enum tally_kind { TALLY_USER, TALLY_DATABASE, TALLY_PROCESS, TALLY_POOL, TALLY_HOST };

/* The counts of one site, on cache lines of their own. */
struct tally_slot {
	_Alignas(64) atomic_int servers; /* servers that count against the limit */
	/* clients that count against the limit; of a pool: its clients */
	atomic_int clients;
	atomic_int connected; /* of a pool: servers that have logged in */
	atomic_int resting;   /* resting servers */
	atomic_int queued;    /* of a pool: clients that wait in it */
	/* of a pool: servers on their way to the site, counted here by their senders,
	 * and when the last of them was sent */
	atomic_int arriving;
	atomic_ullong arriving_us;
	/* Since when the first client of the site waits for something that others could
	 * give: a server of the pool, or room under the limit; of a host: the first
	 * connection for its turn.  0: none waits. */
	atomic_ullong waiting_us;
	/* of a pool: clients wait for the welcome; the welcome is known here */
	atomic_bool wants_welcome, has_welcome;
};

struct tally {
	enum tally_kind kind;
	unsigned users; /* number of references, protected by the lock */
	atomic_bool is_told;
	char *key; /* owned */
	size_t key_len;
	atomic_uint waiting_count; /* number of slots with waiting_us */
	atomic_ullong turn_us;     /* of a host: the last connect by turns; 0: none */
	/* the shared text, see tally_write_text; protected by the lock */
	struct buf text;
	unsigned text_order;
	atomic_uint text_number;
	/* what sites have left for the others, protected by the lock; NULL: nothing */
	struct kept *kept;
	atomic_bool has_kept;
	struct tally_slot slots[];
};

/* All tallies of the process. */
struct tallies;

struct tallies *tallies_new(unsigned site_count);
void tallies_free(struct tallies **t); /* there must be no references */
void tallies_lock(struct tallies *t);
void tallies_unlock(struct tallies *t);
/* While frozen, no server connection is begun and none changes sites, so that reading
 * the sites one after the other gives consistent numbers. */
void tallies_freeze(struct tallies *t, bool is_frozen);
bool tallies_are_frozen(const struct tallies *t);
/* Sets the function that says whether a site does not answer, and must not be counted
 * upon.  It is called on any thread.  Without it all sites answer. */
typedef bool tallies_deaf_fn(void *ctx, unsigned site);
void tallies_on_deaf(struct tallies *t, tallies_deaf_fn *fn, void *ctx);

/* Returns the tally of this kind and these names (user or database may be NULL,
 * depending on the kind) with a reference, and makes it if needed.  Any thread may
 * release it.  It lives while there are references, or servers or clients are counted
 * in it. */
struct tally *tally_hold(
    struct tallies *t, enum tally_kind kind, const char *database, const char *user);
void tally_release(struct tallies *t, struct tally **tally);
/* Calls fn with the database of each pool of any site; a database may come several
 * times. */
typedef void tallies_database_fn(void *ctx, const char *database);
void tallies_each_database(struct tallies *t, tallies_database_fn *fn, void *ctx);

/* For events that several sites notice one after the other.  tally_is_news: whether
 * this site is the first.  tally_is_last: whether no other site has a reference any
 * more. */
bool tally_is_news(struct tally *tally);
bool tally_is_last(struct tallies *t, const struct tally *tally);

/* ---- a text that all sites may read; what it says is not known here ---- */

/* The number of the text, which changes with it; 0: there is none.  Needs no lock. */
unsigned tally_text_number(const struct tally *tally);
/* Appends the text to `out`, sets *order to what the writer gave, and returns the
 * number. */
unsigned tally_read_text(
    struct tallies *t, const struct tally *tally, struct buf *out, unsigned *order);
/* Replaces the text, and takes over the memory of `text`.  False: another site has
 * written one since the text with this number; read that first. */
bool tally_write_text(struct tallies *t, struct tally *tally, unsigned *number,
    unsigned order, struct buf *text);

/* ---- what freed pools have counted ---- */

/* Leaves it for the other sites; *kept is NULL then. */
void tally_leave(struct tallies *t, struct tally *tally, struct kept **kept);
/* Adds to *kept what others have left.  Cheap if that is nothing. */
void tally_take(struct tallies *t, struct tally *tally, struct kept **kept);

/* ---- one site's view; tally NULL: nobody else counts ---- */

struct tally_view {
	struct tallies *tallies; /* NULL: there is one site */
	unsigned site, site_count;
	bool serves_nobody; /* the site has no clients, so it keeps no servers */
};

/* Servers of all sites, including those on their way between sites. */
int tally_servers(const struct tally_view *view, const struct tally *tally);
/* The same for clients. */
int tally_clients(const struct tally_view *view, const struct tally *tally);
/* Sums of the slots of all other sites. */
int tally_clients_elsewhere(const struct tally_view *view, const struct tally *tally);
int tally_connected_elsewhere(const struct tally_view *view, const struct tally *tally);
int tally_queued_elsewhere(const struct tally_view *view, const struct tally *tally);
/* Returns the site with the most resting servers of those that answer; -1: none has
 * one. */
int tally_find_resting(const struct tally_view *view, const struct tally *tally);
/* How many servers of a pool rest, or are on their way to another site, at sites that
 * answer. */
int tally_available(const struct tally_view *view, const struct tally *tally);
/* How many servers of a pool are on their way to another site. */
int tally_arriving(const struct tally_view *view, const struct tally *tally);
/* Returns a site with clients of a pool that answers; -1: none. */
int tally_find_clients(const struct tally_view *view, const struct tally *tally);
/* Returns a site that knows the welcome and answers; -1: none. */
int tally_find_welcome(const struct tally_view *view, const struct tally *tally);
/* Returns the site whose client has waited longest, since *since_us, of those that
 * answer; -1: none waits.  Cheap while no client waits. */
int tally_find_waiting(
    const struct tally_view *view, const struct tally *tally, uint64_t *since_us);
/* The same, without sites to which a server is on its way.  One that has been on its
 * way for long does not count, because the thread of its sender may stand still. */
int tally_find_receiver(const struct tally_view *view, const struct tally *tally,
    uint64_t now_us, uint64_t *since_us);
/* A server is on its way to the site with this slot. */
void tally_note_arrival(struct tally_slot *slot, uint64_t now_us);
/* What this site has noted last with tally_note_waiting. */
uint64_t tally_shown_waiting(const struct tally_view *view, const struct tally *tally);
/* Notes since when the first client of this site waits (0: none waits).  True: the
 * client that was the first here before no longer waits. */
bool tally_note_waiting(
    const struct tally_view *view, struct tally *tally, uint64_t since_us);

/* This site's counts. */
static inline struct tally_slot *tally_own(
    const struct tally_view *view, struct tally *tally)
{
	return &tally->slots[view->site];
}
static inline void tally_add(atomic_int *count, int change)
{
	atomic_fetch_add_explicit(count, change, memory_order_relaxed);
}
/* For a count that no other site ever changes: avoids a locked instruction. */
static inline void tally_add_own(atomic_int *count, int change)
{
	atomic_store_explicit(count,
	    atomic_load_explicit(count, memory_order_relaxed) + change,
	    memory_order_relaxed);
}

#endif
