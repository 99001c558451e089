/*
 * What sites of one process ask each other ("wishes") for their waiting clients, and
 * how a site answers.  The broker sends the wishes as letters.
 */
#ifndef POOL_WISHES_H
#define POOL_WISHES_H

#include "pool/pool.h"

/* What a site asks another one for. */
enum wish_kind {
	WISH_SERVER,  /* a resting server of this pool, for a waiting client */
	WISH_WELCOME, /* the welcome of this pool */
	WISH_ROOM,    /* to close a resting server that counts against this limit */
	WISH_LOOK,    /* to check again who waits, because there may be room */
};

struct wish {
	enum wish_kind kind;
	enum tally_kind of;          /* WISH_ROOM, WISH_LOOK: the kind of limit */
	unsigned from;               /* the site that asks */
	const char *database, *user; /* borrowed; NULL if the limit is not about one */
	/* since when the client waits; WISH_ROOM: its place, see room_place */
	uint64_t since_us;
};

/* Answers a wish.  HAND: give this seat to the site of the verdict, whose client has
 * waited longest (it need not be the site that asked); the seat has left the pool and
 * still counts.  RETIRE: close this one to make room.  NONE: nothing can be given. */
struct verdict wishes_hear(struct catalog *c, const struct wish *wish, uint64_t now_us);
/* Returns the pool that a wish is about, if it exists here, or NULL. */
struct pool *wishes_pool(struct catalog *c, const char *database, const char *user);
/* An answer to a wish has come, or a server unasked. */
void wishes_answered(struct pool *pool, bool has_server, uint64_t now_us);

/* A server that another site handed over cannot be used here: it no longer counts. */
void wishes_lost(
    struct catalog *c, const char *database, const char *user, unsigned from);

#endif
