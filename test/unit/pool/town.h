/*
 * Three hosts, a, b and c, and a pool of them whose broker carries out its verdicts.
 */
#ifndef TEST_POOL_TOWN_H
#define TEST_POOL_TOWN_H

#include "pool/host_group.h"
#include "pool/hosts_role.h"
#include "world.h"

enum { SLOTS = 40, DIALS_MAX = 20000 };

struct town {
	struct world w;
	struct pool *pool;
	struct slot slots[SLOTS];
	const char *dead; /* connections to these hosts fail */
	/* hosts with this role; when both are empty no host reports a role */
	const char *standbys, *read_only;
	uint32_t timelines[3];
	const char
	    *read_only_for_users; /* at these hosts users of pools may only read */
	bool is_silent;           /* servers do not report their role */
	/* the monitor of hosts: it looks when it is asked, unless it is blind */
	struct catalog_events events;
	struct host_watch watches[3];
	struct host_group group;
	bool is_blind, is_hinted;
	bool has_begun; /* all it knows is that it has not tried any host */
	unsigned dials, closed, refused;
	char dialed[64]; /* the hosts of the latest dials */
};

/* keys: more keys of the database entry. */
void town_init(struct town *t, const char *keys, const char *settings);
/* The monitor looks, and tells its verdicts. */
void town_look(struct town *t);
struct host *town_host(struct town *t, size_t i);
void town_close(struct town *t, struct slot *slot);
void town_done(struct town *t);
struct slot *town_begin_dial(struct town *t, struct pool *pool);
void town_end_dial(struct town *t, struct slot *slot);
void town_serve(struct town *t, struct pool *pool);
void town_ask(struct town *t, struct pool *pool, struct pool_request *request);
void town_give(struct town *t, struct pool_request *request);

#endif
