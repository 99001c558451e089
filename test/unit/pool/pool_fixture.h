/*
 * A catalog made from ini text, which records the events it gets, for the tests of
 * pool/.
 */
#ifndef TEST_POOL_WORLD_H
#define TEST_POOL_WORLD_H

#include "pool/catalog.h"
#include "pool/pool.h"

enum { WORLD_KICKS = 64, SECOND = 1000000 };

struct fixture {
	struct mem mem;
	struct catalog *c;
	struct pool *scheduled[WORLD_KICKS];
	size_t schedule_count;
	struct pool *killed[8];
	size_t kill_count;
	char kill_reason[64];
	unsigned freed;
	char notes[1024]; /* one per line */
	uint64_t now;
};

/* now is 100 s. */
void fixture_init(struct fixture *w, const char *ini);
/* The same for one of several workers. */
void fixture_init_worker(
    struct fixture *w, const char *ini, struct central *central, unsigned worker);
void fixture_done(struct fixture *w);
/* Takes over another ini text and, when not NULL, a user list. */
void fixture_adopt(struct fixture *w, const char *ini, const char *userlist);
void fixture_set(struct fixture *w, const char *name, const char *value);
struct pool *fixture_pool(struct fixture *w, const char *database, const char *user);
/* Whether the pool was scheduled since the last call. */
bool fixture_was_scheduled(struct fixture *w, const struct pool *pool);

/* These fail when the verdict is not of this kind. */
struct verdict fixture_next(
    struct fixture *w, struct pool *pool, enum verdict_kind kind);
struct verdict fixture_ask(
    struct fixture *w, struct pool_request *request, enum verdict_kind kind);
struct verdict fixture_give(
    struct fixture *w, struct slot *slot, enum verdict_kind kind);
void fixture_join(struct pool *pool, struct pool_request *request);
/* Expects DIAL, lets the server log in, and expects this verdict on it. */
struct verdict fixture_dial(
    struct fixture *w, struct pool *pool, struct slot *slot, enum verdict_kind kind);
void fixture_gone(struct fixture *w, struct slot *slot);

#endif
