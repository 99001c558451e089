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

/* Makes an empty roll and enters it in the site's list.  End it with roll_end. */
void roll_begin(struct roll *roll, struct site *site);
/* The client is borrowed, and struck out if it dies. */
void roll_add(struct roll *roll, struct client *client);
/* The next client that is still alive; each comes once.  NULL: there are no more. */
struct client *roll_next(struct roll *roll);
/* Frees what the roll has allocated, and takes it out of the site's list. */
void roll_end(struct roll *roll, struct site *site);

/* The client is about to be freed: it is struck out of every roll of the site. */
void roll_strike(struct site *site, const struct client *client);

#endif
