/*
 * A maximum flow from databases to users: the flow out of a database is at most its
 * limit, the flow to a user at most the user's limit, and the flow between the two at
 * most the size of their pools.
 */
#ifndef TOOLS_SIZING_FLOW_H
#define TOOLS_SIZING_FLOW_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct sizing_flow {
	/* owned */
	int64_t *users;    /* what each user may still take */
	int64_t *direct;   /* what each user can get from databases without a limit */
	struct buf supply; /* int64_t: the limit of each database that has one */
	struct buf rooms;  /* int64_t for each of these databases and each user */
	size_t user_count;
	int64_t limit; /* of the database that was begun last */
};

void sizing_flow_init(struct sizing_flow *f, size_t user_count);
void sizing_flow_done(struct sizing_flow *f);
/* In all these functions SIZING_NO_LIMIT means no limit. */
void sizing_flow_user(struct sizing_flow *f, size_t user, int64_t limit);
/* Begins the next database.  Calls of sizing_flow_pool follow, one for each user, in
 * their order. */
void sizing_flow_database(struct sizing_flow *f, int64_t limit);
void sizing_flow_pool(struct sizing_flow *f, size_t user, int64_t room);
/* Computes the maximum flow.  The numbers in f are used up. */
int64_t sizing_flow_most(struct sizing_flow *f);

#endif
