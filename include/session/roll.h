/*
 * Clients in the order in which something long goes through them, a few per turn.  One
 * that dies meanwhile is struck out; one that comes later is not in it.
 */
#ifndef SESSION_ROLL_H
#define SESSION_ROLL_H

#include <stddef.h>

#include "base/list.h"

struct client;
struct site;

struct roll {
	struct node node;        /* in site->rolls */
	struct client **clients; /* owned; the clients borrowed; NULL: struck out */
	size_t count, room, at;
};

/* An empty one. */
void roll_begin(struct roll *roll, struct site *site);
void roll_add(struct roll *roll, struct client *client);
/* Each that is left, once; NULL at the end. */
struct client *roll_next(struct roll *roll);
void roll_end(struct roll *roll, struct site *site);

/* Out of all that are under way: its memory goes. */
void roll_strike(struct site *site, const struct client *client);

#endif
