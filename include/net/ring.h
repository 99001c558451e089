/*
 * The kernel's io_uring: sockets that receive and send by completions.  The only files
 * that include liburing are src/net/ring*.c.
 *
 * Sends and other requests are queued, and given to the kernel together by the system
 * call that waits for the next ones.  A send is tried once and at once, inside that
 * call: so the kernel uses the bytes only during the call, and they must stay until
 * `sent` tells what became of them.  Received bytes lie in blocks that the kernel was
 * given before.  The kernel takes bytes from a socket only inside ring_wait,
 * ring_settle and calls that find the queue of requests full, never in between.
 *
 * A ring belongs to the thread that made it.
 */
#ifndef NET_RING_H
#define NET_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/mem.h"
#include "net/block.h"

struct ring;
struct ring_port; /* one socket on the ring */

/* What the owner of a port is told.  Only `received`, `ended` and `writable` come from
 * ring_deliver alone and may do anything; `sent` may come from ring_settle too. */
struct ring_ops {
	/* Bytes [block->bytes, +len) arrived; the block is borrowed. */
	void (*received)(void *owner, struct block *block, size_t len);
	/* Nothing more will be received: the peer closed (0), or an errno. */
	void (*ended)(void *owner, int errnum);
	/* What became of ring_send of `asked` bytes: how many were sent, or -errno.
	 * Less than all and -EAGAIN mean that the socket takes no more now. */
	void (*sent)(void *owner, ssize_t result, size_t asked);
	/* ring_wait_writable came true. */
	void (*writable)(void *owner);
	/* The ring is broken, and the port is gone.  Comes from ring_abandon. */
	void (*lost)(void *owner);
};

/* Makes a ring and tries on a pair of sockets whether it does what is needed.  ops is
 * borrowed.  NULL and err when this build, the kernel or its rules do not allow it. */
struct ring *ring_new(struct mem *mem, const struct ring_ops *ops, struct err *err);
/* All ports must have left; waits until the kernel is done with them. */
void ring_free(struct ring **ring);
/* For the log and SHOW MEM. */
void ring_block_usage(
    const struct ring *ring, size_t *used, size_t *free_count, size_t *bytes);

/* ---- waiting: for the loop ---- */

enum { RING_FOREVER = -1 };
/* Give the kernel what is queued and wait for completions, at most wait_us (0: not at
 * all, RING_FOREVER).  -1 and errno: the ring is broken; use ring_abandon. */
int ring_wait(struct ring *ring, int64_t wait_us);
/* Tell the owners what has completed. */
void ring_deliver(struct ring *ring);
/* Another descriptor to wait for: an epoll instance.  It has to be asked after each
 * delivery, and is watched again from then on. */
void ring_join(struct ring *ring, int fd);
bool ring_is_joined_ready(struct ring *ring);
/* A listening socket that its owner accepts from: `ready` is called in each delivery
 * for which somebody waits there.  The owner frees it before the socket is closed, and
 * then the kernel has let go of the socket.  ring_abandon frees it, too. */
struct ring_listener;
struct ring_listener *ring_listener_new(
    struct ring *ring, int fd, void (*ready)(void *owner), void *owner);
void ring_listener_free(struct ring_listener **listener);
/* Give the kernel what is queued, and tell what became of sends; nothing else. */
void ring_settle_all(struct ring *ring);
/* For a ring that is broken: tells what completed, then `lost` to each owner.  Nothing
 * is received that is not told; what was queued and not sent is told as -EAGAIN. */
void ring_abandon(struct ring *ring);

/* ---- sockets ---- */

struct ring_port *ring_port_new(struct ring *ring, int fd, void *owner);
/* The owner has nothing more to do with it: pending requests end, then the socket is
 * closed.  No send may be on its way (ring_settle). */
void ring_port_leave(struct ring_port *port);
/* Receive from now on, or no more; what arrived before a stop may still be told. */
void ring_receive(struct ring_port *port);
void ring_stop_receiving(struct ring_port *port);
/* May bytes still arrive, also after a stop? */
bool ring_is_receiving(const struct ring_port *port);
/* Queue one send of all pieces (at most RING_PIECES); iov is copied, the bytes are not.
 * `sent` tells what became of it: with the next turn whose wait ends for some reason,
 * or, if is_urgent, without waiting for anything else. */
enum { RING_PIECES = 64 };
void ring_send(
    struct ring_port *port, const struct iovec *iov, int count, bool is_urgent);
bool ring_is_sending(const struct ring_port *port);
/* Send what is queued now, and tell what became of this port's send. */
void ring_settle(struct ring_port *port);
/* Tell once when the socket takes bytes again. */
void ring_wait_writable(struct ring_port *port);

#endif
