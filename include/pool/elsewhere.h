/*
 * What the catalogs of several workers have to do with each other: whose client waits
 * longest for a server of a pool or for room under a limit, and who can help.  With one
 * worker all of it says no.  Private to the pool floor.
 */
#ifndef POOL_ELSEWHERE_H
#define POOL_ELSEWHERE_H

#include "pool/pool.h"
#include "pool/wishes.h"

/* Whether the first client that waits (NULL: all want the welcome alone) shall wait for
 * a server, or for the welcome, from another site, which is asked if it was not yet;
 * *wake_us becomes earlier if time alone can change that. */
bool elsewhere_has_help(
    struct pool *pool, const struct ask *first, uint64_t now_us, uint64_t *wake_us);
/* Who waits for the welcome alone is let in also while the pool is paused: a site that
 * knows it is asked.  *wake_us as above. */
void elsewhere_ask_welcome(struct pool *pool, uint64_t now_us, uint64_t *wake_us);
/* A seat is free that another site asks for: the site whose client is to get it, or -1
 * if it stays. */
int elsewhere_heir(const struct pool *pool, const struct ask *first, uint64_t now_us);
/* The same for one that has just been given back, which may be wanted here at once: a
 * site that has servers of the pool gets it only when its client has waited a while. */
int elsewhere_heir_of_used(
    const struct pool *pool, const struct ask *first, uint64_t now_us);
/* Ask whoever has a server at rest under this limit to close it.  False: nobody has. */
bool elsewhere_asks_for_room(struct pool *pool, enum room_kind kind, uint64_t now_us);
/* Ask whoever has a server at rest in this pool to close it: it is of no use to the
 * client that waits.  False: there are no other sites. */
bool elsewhere_asks_for_seat(struct pool *pool, uint64_t now_us);
/* A client of another site has waited longer for room under this limit; it is told that
 * there may be some. */
bool elsewhere_is_first(
    const struct pool *pool, enum room_kind kind, uint64_t place_us);
/* Something that counted has ended: who waits for it elsewhere is told. */
void elsewhere_tell_of_room(const struct pool *pool);
/* The same under this one limit, or in the pool itself. */
void elsewhere_tell_next(const struct pool *pool, const struct tally *tally);
/* ... of these names, whether or not the pool exists here. */
void elsewhere_tell_named(struct catalog *c, const struct tally *tally,
    const char *database, const char *user);
/* The pool ends: its clients are nobody's concern any more, and what is shown of its
 * name is soon that of another pool. */
void elsewhere_leave(struct pool *pool);

#endif
