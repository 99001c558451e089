/*
 * Sockets that receive and send by completions of the kernel's io_uring.  Only
 * src/net/ring*.c include liburing.
 *
 * Sends and other requests are queued, and handed to the kernel by the same system call
 * that waits for completions.  A send is tried once, during that call; so the kernel
 * uses the bytes only during the call, and they must stay unchanged until `sent`
 * reports the result.  Received bytes are in blocks that were lent to the kernel
 * before; a socket in which much arrives is only watched, and its owner receives.  The
 * kernel takes bytes from a socket only during ring_wait, ring_settle and calls that
 * find the queue of requests full.
 *
 * A ring may only be used by the thread that made it.
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

/* Callbacks to the owner of a port.  `received`, `ended` and `writable` come only from
 * ring_deliver and may call any function, or from ring_port_detach for that port;
 * `sent` may also come from ring_settle. */
struct ring_ops {
	/* len bytes from block->bytes on have arrived; the block is borrowed. */
	void (*received)(void *owner, struct block *block, size_t len);
	/* The socket has bytes, or the end, for the owner to receive by system calls;
	 * much arrived lately.  Returns how many bytes the owner has received. */
	size_t (*readable)(void *owner);
	/* Nothing more will be received: 0 means that the peer closed, otherwise an
	 * errno. */
	void (*ended)(void *owner, int errnum);
	/* The result of ring_send of `asked` bytes: the number of bytes sent, or
	 * -errno.  Fewer bytes, or -EAGAIN, mean that the socket takes no more at the
	 * moment. */
	void (*sent)(void *owner, ssize_t result, size_t asked);
	/* The socket is writable again, see ring_wait_writable. */
	void (*writable)(void *owner);
	/* The ring is broken, and the port no longer exists.  Comes from
	 * ring_abandon. */
	void (*lost)(void *owner);
};

/* Makes a ring and tests with a pair of sockets that it does everything needed.  ops is
 * borrowed.  NULL and err when this build, the kernel or its policy does not allow
 * it. */
struct ring *ring_new(struct mem *mem, const struct ring_ops *ops, struct err *err);
/* All ports must have left before.  Waits until the kernel has ended all requests. */
void ring_free(struct ring **ring);
/* For the log and SHOW MEM. */
void ring_block_usage(
    const struct ring *ring, size_t *used, size_t *free_count, size_t *bytes);

/* ---- waiting: for the loop ---- */

enum { RING_FOREVER = -1 };
/* Hands queued requests to the kernel and waits for completions, at most wait_us (0:
 * not at all, RING_FOREVER).  -1 and errno: the ring is broken; call ring_abandon. */
int ring_wait(struct ring *ring, int64_t wait_us);
/* Reports completions to the owners. */
void ring_deliver(struct ring *ring);
/* Also waits for another descriptor, which must be an epoll instance.  That one has to
 * be checked after each delivery, which also arms the watch again. */
void ring_join(struct ring *ring, int fd);
bool ring_take_joined_ready(struct ring *ring);
/* A listening socket: `ready` is called in each delivery for which connections wait
 * there, and the owner accepts them.  The owner frees it before closing the socket; the
 * kernel then no longer uses the socket.  ring_abandon frees it as well. */
struct ring_listener;
struct ring_listener *ring_listener_new(
    struct ring *ring, int fd, void (*ready)(void *owner), void *owner);
void ring_listener_free(struct ring_listener **listener);
/* Hands all queued requests to the kernel and reports the results of sends; nothing
 * else. */
void ring_settle_all(struct ring *ring);
/* For a broken ring: reports what has completed, then calls `lost` for each port.  All
 * bytes received are reported; sends that were queued but not done are reported as
 * -EAGAIN. */
void ring_abandon(struct ring *ring);

/* ---- sockets ---- */

struct ring_port *ring_port_new(struct ring *ring, int fd, void *owner);
/* The owner no longer needs the port: pending requests are cancelled, then the socket
 * is closed.  No send may be pending (see ring_settle). */
void ring_port_leave(struct ring_port *port);
/* Ends all requests before it returns, and frees the port; the socket stays open.  What
 * the kernel had received, or that it received the end, is reported from inside the
 * call.  No send may be pending. */
void ring_port_detach(struct ring_port *port);
/* Start and stop receiving.  After a stop, bytes that had arrived before may still be
 * reported. */
void ring_receive(struct ring_port *port);
void ring_stop_receiving(struct ring_port *port);
/* Whether bytes may still arrive, also after a stop. */
bool ring_is_receiving(const struct ring_port *port);
/* Queues one send of all pieces (at most RING_PIECES).  iov is copied, the bytes are
 * not.  `sent` reports the result: in the next turn, or, if is_urgent, without waiting
 * for any other event. */
enum { RING_PIECES = 64 };
void ring_send(
    struct ring_port *port, const struct iovec *iov, int count, bool is_urgent);
bool ring_is_sending(const struct ring_port *port);
/* The next ring_wait returns at once, so that the results of pending sends are reported
 * even if these are not urgent: more is to be sent behind them. */
void ring_hurry(struct ring *ring);
/* Sends what is queued now, and reports the result of this port's send. */
void ring_settle(struct ring_port *port);
/* Requests one call of `writable`, when the socket takes bytes again. */
void ring_wait_writable(struct ring_port *port);

#endif
