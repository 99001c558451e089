/*
 * Three hosts, a, b and c, and a pool of them whose broker carries out its verdicts.
 */
#ifndef TEST_POOL_TOWN_H
#define TEST_POOL_TOWN_H

#include "pool/host_group.h"
#include "pool/hosts_role.h"
#include "pool_fixture.h"

enum { SLOTS = 40, DIALS_MAX = 20000 };

struct hosts_fixture {
	struct fixture w;
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
void hosts_fixture_init(
    struct hosts_fixture *t, const char *keys, const char *settings);
/* The monitor looks, and tells its verdicts. */
void hosts_fixture_look(struct hosts_fixture *t);
struct host *hosts_fixture_host(struct hosts_fixture *t, size_t i);
void hosts_fixture_close(struct hosts_fixture *t, struct slot *slot);
void hosts_fixture_done(struct hosts_fixture *t);
struct slot *hosts_fixture_begin_dial(struct hosts_fixture *t, struct pool *pool);
void hosts_fixture_end_dial(struct hosts_fixture *t, struct slot *slot);
void hosts_fixture_serve(struct hosts_fixture *t, struct pool *pool);
void hosts_fixture_ask(
    struct hosts_fixture *t, struct pool *pool, struct pool_request *request);
void hosts_fixture_give(struct hosts_fixture *t, struct pool_request *request);

#endif
