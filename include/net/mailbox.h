/*
 * Messages from other threads to a loop.  Any thread may post one; the
 * loop's thread handles them between two handlers.  Messages of the same
 * thread keep their order.  The loop's clock is read before they are handled, so a time
 * that the sender's loop has read is not later than loop_now.
 */
#ifndef NET_MAILBOX_H
#define NET_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/loop.h"

/* Embedded in whatever is sent.  It belongs to the sender until it is posted, then to
 * the receiver. */
struct thread_message {
	struct thread_message *next; /* used by the mailbox */
	void (*handle)(struct thread_message *message);
};

struct mailbox;

/* NULL and err: there is no descriptor left. */
struct mailbox *mailbox_new(struct loop *loop, struct err *err);
/* Handles the messages that have arrived, and frees the mailbox.  To be called on the
 * loop's thread when nobody can post any more. */
void mailbox_free(struct mailbox **m);

/* May be called from any thread; never waits. */
void mailbox_post(struct mailbox *m, struct thread_message *message);
/* Whether the loop has left a message unhandled for that long.  May be called from any
 * thread. */
bool mailbox_is_unread_for(const struct mailbox *m, uint64_t us);

#endif
