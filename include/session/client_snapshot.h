/*
 * A list of clients for a task that handles a few of them per turn of the loop.  A
 * client that ends meanwhile is removed from the list; one that connects later is not
 * added.
 */
#ifndef SESSION_CLIENT_SNAPSHOT_H
#define SESSION_CLIENT_SNAPSHOT_H

#include <stddef.h>

#include "base/list.h"

struct client;
struct site;
struct client_snapshot;

/* A client goes to another site: returns what is kept in its place, a block of
 * mem_alloc that the snapshot owns. */
typedef void *client_snapshot_keep_fn(
    struct client_snapshot *snapshot, const struct client *client);

struct client_snapshot {
	struct node node;        /* in site->snapshots */
	struct client **clients; /* owned array of borrowed clients; NULL: removed */
	size_t count, room, at;
	/* NULL: nothing is kept; set it after client_snapshot_begin */
	client_snapshot_keep_fn *keep;
	void **kept; /* owned array, beside clients; NULL: nothing was kept */
};

/* Initialises an empty snapshot and enters it in the site's list.  Call
 * client_snapshot_end at the end. */
void client_snapshot_begin(struct client_snapshot *snapshot, struct site *site);
/* Adds a client, which is borrowed and is removed if it ends. */
void client_snapshot_add(struct client_snapshot *snapshot, struct client *client);
/* The next client that still exists; each is returned once.  For one that has gone and
 * of which something was kept, returns NULL and sets *kept to that, which the snapshot
 * still owns.  NULL for both: there are no more. */
struct client *client_snapshot_next(
    struct client_snapshot *snapshot, const void **kept);
/* Frees the snapshot's memory and removes it from the site's list. */
void client_snapshot_end(struct client_snapshot *snapshot, struct site *site);

/* Removes a client that is about to be freed from every snapshot of the site. */
void client_snapshot_strike(struct site *site, const struct client *client);
/* Removes a client that goes to another site and is whole yet: snapshots may keep
 * something of it. */
void client_snapshot_leave(struct site *site, const struct client *client);
/* The site ends before some of its snapshots: takes them out of its list. */
void client_snapshot_forget_all(struct site *site);

#endif
