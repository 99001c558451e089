/*
 * What sites of one process wish of each other for clients of theirs that wait, as one
 * of them hears it.  The letters are the session floor's.
 */
#ifndef POOL_WISHES_H
#define POOL_WISHES_H

#include "pool/pool.h"

/* What one site asks another for. */
enum wish_kind {
	WISH_SERVER,  /* a server at rest of this pool, for a client that waits */
	WISH_WELCOME, /* what clients of this pool are greeted with */
	WISH_ROOM,    /* close a server at rest that counts against this limit */
	WISH_LOOK,    /* there may be room now: look again who waits */
};

struct wish {
	enum wish_kind kind;
	enum tally_kind of;          /* WISH_ROOM, WISH_LOOK: what is counted */
	unsigned from;               /* the site that wishes */
	const char *database, *user; /* borrowed; NULL where it is not about one */
	uint64_t since_us;           /* the client has waited since then */
};

/* HAND: this seat goes to the site of the verdict, where the client is that has waited
 * longest, which need not be who asked (it has left the pool, and still counts).
 * RETIRE: this one makes room.  NONE: nothing can be given. */
struct verdict wishes_hear(struct catalog *c, const struct wish *wish, uint64_t now_us);
/* The pool that a wish is about, if it is known here; else NULL. */
struct pool *wishes_pool(struct catalog *c, const char *database, const char *user);
/* An answer to WISH_SERVER has come, with a server or without. */
void wishes_answered(struct pool *pool);

/* A server that another site has handed over cannot be taken here: it counts no more.
 */
void wishes_lost(
    struct catalog *c, const char *database, const char *user, unsigned from);

#endif
