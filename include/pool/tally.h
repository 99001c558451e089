/*
 * Counts that the catalogs of several workers share, so that a limit holds for all of
 * them together.  A tally is what is counted for one pool, one database, one user or
 * the process; each site has a slot in it, which it alone changes (but see
 * tally_carry), and whoever wants the sum adds the slots up.
 *
 * Who is about to take more of something that has a limit holds the lock from the look
 * at the sum until its own slot says so: then nobody exceeds a limit, at any moment.
 * Giving back needs no lock.
 */
#ifndef POOL_TALLY_H
#define POOL_TALLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tally_kind { TALLY_USER, TALLY_DATABASE, TALLY_PROCESS, TALLY_POOL };

/* One site's part: on cache lines of its own. */
struct tally_slot {
	_Alignas(64) atomic_int servers; /* that count against the limit */
	atomic_int clients;              /* that count against the limit */
	atomic_int connected;            /* pools: servers that have logged in */
	atomic_int resting;              /* servers at rest */
	/* Since when the first client here waits for what others may give: for a server
	 * of the pool, or for room under the limit; 0: nobody does. */
	atomic_ullong waiting_us;
	/* pools: clients wait for the parameters they are greeted with; they are known
	 * here */
	atomic_bool wants_welcome, has_welcome;
};

struct tally {
	enum tally_kind kind;
	unsigned users; /* under the lock: how many hold it */
	atomic_bool is_told;
	char *key; /* owned */
	size_t key_len;
	atomic_uint waiting_count; /* of the slots with waiting_us */
	struct tally_slot slots[];
};

/* All there are. */
struct tallies;

struct tallies *tallies_new(unsigned site_count);
void tallies_free(struct tallies **t); /* nobody holds one */
void tallies_lock(struct tallies *t);
void tallies_unlock(struct tallies *t);
/* While somebody reads the sites one after the other no server begins to be opened and
 * none changes sites: what is read then fits together. */
void tallies_freeze(struct tallies *t, bool is_frozen);
bool tallies_are_frozen(const struct tallies *t);

/* The tally of this kind and these names (user NULL or database NULL: it is not about
 * one), made on demand.  tally_release by the same thread or another; it lasts while
 * somebody holds it, or a server is counted in it. */
struct tally *tally_hold(
    struct tallies *t, enum tally_kind kind, const char *database, const char *user);
void tally_release(struct tallies *t, struct tally **tally);

/* Of what several sites come to know one after the other: is this the first of them?
 * ... and does nobody else hold it any more? */
bool tally_is_news(struct tally *tally);
bool tally_is_last(struct tallies *t, const struct tally *tally);

/* ---- one site's view; tally NULL: nobody else counts ---- */

struct tally_view {
	struct tallies *tallies; /* NULL: there is one site */
	unsigned site, site_count;
	bool
	    serves_nobody; /* the site has no clients of its own: it keeps no servers */
};

/* The servers of all sites, also those on their way between two. */
int tally_servers(const struct tally_view *view, const struct tally *tally);
/* What others count: the sum of all slots but the own one. */
int tally_clients_elsewhere(const struct tally_view *view, const struct tally *tally);
int tally_connected_elsewhere(const struct tally_view *view, const struct tally *tally);
/* The site, if any, with the most servers at rest; -1: none has one. */
int tally_find_resting(const struct tally_view *view, const struct tally *tally);
bool tally_has_servers(const struct tally *tally, unsigned site);
/* The site that knows the welcome; -1: none. */
int tally_find_welcome(const struct tally_view *view, const struct tally *tally);
/* The site whose client has waited longest, since *since_us; -1: none waits.  Cheap
 * while nobody does. */
int tally_find_waiting(
    const struct tally_view *view, const struct tally *tally, uint64_t *since_us);
/* Somebody waits here since then (0: nobody any more).  True: who waited longest here
 * does not any more. */
bool tally_note_waiting(
    const struct tally_view *view, struct tally *tally, uint64_t since_us);

/* Own counts. */
static inline struct tally_slot *tally_own(
    const struct tally_view *view, struct tally *tally)
{
	return &tally->slots[view->site];
}
static inline void tally_add(atomic_int *count, int change)
{
	atomic_fetch_add_explicit(count, change, memory_order_relaxed);
}
/* The same for a count that no other site ever changes: no bus lock. */
static inline void tally_add_own(atomic_int *count, int change)
{
	atomic_store_explicit(count,
	    atomic_load_explicit(count, memory_order_relaxed) + change,
	    memory_order_relaxed);
}

#endif
