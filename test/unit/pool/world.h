/*
 * A catalog made from ini text, which records the events it gets, for the tests of
 * pool/.
 */
#ifndef TEST_POOL_WORLD_H
#define TEST_POOL_WORLD_H

#include "pool/catalog.h"
#include "pool/pool.h"

enum { WORLD_KICKS = 64, SECOND = 1000000 };

struct world {
	struct mem mem;
	struct catalog *c;
	struct pool *kicked[WORLD_KICKS];
	size_t kick_count;
	struct pool *killed[8];
	size_t kill_count;
	char kill_reason[64];
	unsigned freed;
	char notes[1024]; /* one per line */
	uint64_t now;
};

/* now is 100 s. */
void world_init(struct world *w, const char *ini);
void world_done(struct world *w);
/* Takes over another ini text and, when not NULL, a user list. */
void world_adopt(struct world *w, const char *ini, const char *userlist);
void world_set(struct world *w, const char *name, const char *value);
struct pool *world_pool(struct world *w, const char *database, const char *user);
/* Whether the pool was kicked since the last call. */
bool world_was_kicked(struct world *w, const struct pool *pool);

/* These fail when the verdict is not of this kind. */
struct verdict world_next(struct world *w, struct pool *pool, enum verdict_kind kind);
struct verdict world_ask(
    struct world *w, struct pool_request *request, enum verdict_kind kind);
struct verdict world_give(struct world *w, struct slot *slot, enum verdict_kind kind);
void world_join(struct pool *pool, struct pool_request *request);
/* Expects DIAL, lets the server log in, and expects this verdict on it. */
struct verdict world_dial(
    struct world *w, struct pool *pool, struct slot *slot, enum verdict_kind kind);
void world_gone(struct world *w, struct slot *slot);

#endif
