/*
 * How often clients get a server, counted for a moment: shows which clients of a site
 * make its work.  Usually nothing is counted.  Only with several sites.
 */
#ifndef POOL_ACTIVITY_H
#define POOL_ACTIVITY_H

#include "pool/pool.h"

/* Clients that get one later only add to the total. */
enum { ACTIVITY_MOST = 256 };

struct activity_entry {
	struct pool_request *request; /* borrowed; NULL: the client has left */
	uint64_t count;
};

struct activity {
	struct map
	    *by_request; /* struct activity_entry by the address of its request */
	struct activity_entry entries[ACTIVITY_MOST];
	size_t count;   /* of entries */
	uint64_t total; /* of all clients */
};

/* Begins to count, from zero. */
void activity_begin(struct catalog *c);
/* Ends that, and forgets the counts. */
void activity_end(struct catalog *c);

/* The request of a client has got a server. */
void activity_note(struct activity *activity, struct pool_request *request);
/* The client leaves. */
void activity_leave(struct activity *activity, const struct pool_request *request);

#endif
