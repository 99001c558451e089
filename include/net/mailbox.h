/*
 * Messages ("letters") from other threads to a loop.  Any thread may post one; the
 * loop's thread handles ("opens") them between two handlers.  Letters of the same
 * thread keep their order.
 */
#ifndef NET_MAILBOX_H
#define NET_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/loop.h"

/* Embedded in whatever is sent.  It belongs to the sender until it is posted, then to
 * the receiver. */
struct letter {
	struct letter *next; /* used by the mailbox */
	void (*open)(struct letter *letter);
};

struct mailbox;

/* NULL and err: there is no descriptor left. */
struct mailbox *mailbox_new(struct loop *loop, struct err *err);
/* Opens the letters that have arrived, and frees the mailbox.  To be called on the
 * loop's thread when nobody can post any more. */
void mailbox_free(struct mailbox **m);

/* May be called from any thread; never waits. */
void mailbox_post(struct mailbox *m, struct letter *letter);
/* Whether the loop has left a letter unopened for that long.  May be called from any
 * thread. */
bool mailbox_is_unread_for(const struct mailbox *m, uint64_t us);

#endif
