/*
 * A list of clients for a task that handles a few of them per turn of the loop.  A
 * client that ends meanwhile is removed from the list; one that connects later is not
 * added.
 */
#ifndef SESSION_ROLL_H
#define SESSION_ROLL_H

#include <stddef.h>

#include "base/list.h"

struct client;
struct site;
struct roll;

/* A client goes to another site: returns what is kept in its place, a block of
 * mem_alloc that the roll owns. */
typedef void *roll_keep_fn(struct roll *roll, const struct client *client);

struct roll {
	struct node node;        /* in site->rolls */
	struct client **clients; /* owned array of borrowed clients; NULL: removed */
	size_t count, room, at;
	/* NULL: nothing is kept; set it after roll_begin */
	roll_keep_fn *keep;
	void **kept; /* owned array, beside clients; NULL: nothing was kept */
};

/* Initialises an empty roll and enters it in the site's list.  Call roll_end at the
 * end. */
void roll_begin(struct roll *roll, struct site *site);
/* Adds a client, which is borrowed and is removed if it ends. */
void roll_add(struct roll *roll, struct client *client);
/* The next client that still exists; each is returned once.  NULL: there are no more.
 */
struct client *roll_next(struct roll *roll);
/* As roll_next; for a client that has gone and of which something was kept, returns
 * NULL and sets *kept to that, which the roll still owns.  NULL for both: there are no
 * more. */
struct client *roll_next_or_kept(struct roll *roll, const void **kept);
/* Frees the roll's memory and removes it from the site's list. */
void roll_end(struct roll *roll, struct site *site);

/* Removes a client that is about to be freed from every roll of the site. */
void roll_strike(struct site *site, const struct client *client);
/* Removes a client that goes to another site and is whole yet: rolls may keep something
 * of it. */
void roll_leave(struct site *site, const struct client *client);
/* The site ends before some of its rolls: takes them out of its list. */
void roll_forget_all(struct site *site);

#endif
