/*
 * The greatest flow from databases to users: each database gives at most its limit,
 * each user takes at most theirs, and what passes between the two is what their pools
 * have room for.
 */
#ifndef DAEMON_SIZING_FLOW_H
#define DAEMON_SIZING_FLOW_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct sizing_flow {
	/* owned */
	int64_t *users;    /* what each may take still */
	int64_t *direct;   /* what it can get from databases without a limit */
	struct buf supply; /* int64_t of each database that has a limit */
	struct buf rooms;  /* int64_t for each of them and each user */
	size_t user_count;
	int64_t limit; /* of the database that was begun */
};

void sizing_flow_init(struct sizing_flow *f, size_t user_count);
void sizing_flow_done(struct sizing_flow *f);
/* SIZING_NO_LIMIT: none, here and below. */
void sizing_flow_user(struct sizing_flow *f, size_t user, int64_t limit);
/* Begins the next database, whose pools follow, one for each user, in order. */
void sizing_flow_database(struct sizing_flow *f, int64_t limit);
void sizing_flow_pool(struct sizing_flow *f, size_t user, int64_t room);
/* The greatest flow.  Uses up what was given. */
int64_t sizing_flow_most(struct sizing_flow *f);

#endif
