/*
 * How the pools of several workers (sites) cooperate: whose client has waited longest
 * for a server or for room under a limit, and which site can help.  With one worker all
 * functions return "no".  Private to the pool floor.
 */
#ifndef POOL_ELSEWHERE_H
#define POOL_ELSEWHERE_H

#include "pool/pool.h"
#include "pool/wishes.h"

/* Since when the pool's first waiting client (NULL: none) waits, as other sites are to
 * see it; 0: they need not know, because it will soon have a server of its own site.
 * With one site it must not be called. */
uint64_t elsewhere_shown_since(
    const struct pool *pool, const struct ask *first, uint64_t now_us);
/* When at the latest others have to see it, if they do not yet; otherwise
 * UINT64_MAX. */
uint64_t elsewhere_show_time(const struct pool *pool, const struct ask *first);

/* Whether the first waiting client (NULL: all wait for the welcome only) should wait
 * for another site to give a server, or the welcome.  That site is asked if it was not
 * asked yet.  *wake_us is lowered if the answer can change by time alone. */
bool elsewhere_has_help(
    struct pool *pool, const struct ask *first, uint64_t now_us, uint64_t *wake_us);
/* Clients that wait for the welcome only are admitted even while the pool is paused, so
 * a site that has the welcome is asked for it.  *wake_us as above. */
void elsewhere_ask_welcome(struct pool *pool, uint64_t now_us, uint64_t *wake_us);
/* A seat is free, or another site asks for one: returns the site whose client gets it,
 * or -1 if it stays here. */
int elsewhere_receiver(
    const struct pool *pool, const struct ask *first, uint64_t now_us);
/* Asks a site that has a resting server under this limit to close it for the client
 * with this place (room_place). */
void elsewhere_ask_for_room(struct pool *pool, enum room_kind kind, uint64_t place_us);
/* Asks a site that has a resting server in this pool to close it, because the waiting
 * client cannot use that server.  False: there are no other sites. */
bool elsewhere_asks_for_seat(struct pool *pool, uint64_t now_us);
/* The pool has too many servers, and none rests at this site: tells a site where one
 * does. */
void elsewhere_tell_of_surplus(struct pool *pool, uint64_t now_us);
/* The pool has too few servers, and this site has no clients that might need them:
 * tells a site that has some. */
void elsewhere_tell_of_lack(struct pool *pool, uint64_t now_us);
/* Whether a client of another site has waited longer for room under this limit, and has
 * the place *theirs_us.  That site is told that there may be room. */
bool elsewhere_is_first(const struct pool *pool, enum room_kind kind, uint64_t place_us,
    uint64_t *theirs_us);
/* A seat no longer counts: tells the sites that wait for room. */
void elsewhere_tell_of_room(const struct pool *pool);
/* The same for one limit, or for the pool itself. */
void elsewhere_tell_next(const struct pool *pool, const struct tally *tally);
/* The same by names; the pool need not exist at this site. */
void elsewhere_tell_named(struct catalog *c, const struct tally *tally,
    const char *database, const char *user);
/* The pool is being removed: other sites must no longer see its waiting clients,
 * because the tally may soon be that of another pool with the same name. */
void elsewhere_leave(struct pool *pool);

#endif
