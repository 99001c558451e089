/*
 * Letters from other threads to a loop.  Any thread may post; the loop's thread opens
 * them between two handlers, in the order in which each thread has posted its own.
 */
#ifndef NET_MAILBOX_H
#define NET_MAILBOX_H

#include "base/err.h"
#include "net/loop.h"

/* Embedded in whatever is sent; the poster's until it is posted, the opener's then. */
struct letter {
	struct letter *next; /* the mailbox's */
	void (*open)(struct letter *letter);
};

struct mailbox;

/* NULL and err: no descriptor is left. */
struct mailbox *mailbox_new(struct loop *loop, struct err *err);
/* On the loop's thread, when nobody can post any more.  Letters that have come are
 * opened first. */
void mailbox_free(struct mailbox **m);

/* From any thread; never waits. */
void mailbox_post(struct mailbox *m, struct letter *letter);

#endif
