/*
 * Private to net/ring.
 */
#ifndef NET_RING_PARTS_H
#define NET_RING_PARTS_H

#include "config.h"
#include "net/ring.h"

#ifdef HAVE_URING

#	include <liburing.h>
/* linux/fs.h, which liburing includes, defines this macro; net/block.h uses the name
 * for itself. */
#	undef BLOCK_SIZE
#	include <sys/socket.h>

#	include "base/list.h"

enum {
	RING_BUFFERS, /* the number of the group of buffers that the kernel fills */
	RING_BUFFER_SIZE = 8192,
};

struct ring_buffers {
	struct io_uring_buf_ring *shared; /* owned; shared with the kernel */
	/* owned; by buffer id, with one reference each */
	struct block **blocks;
	struct block_pool *pool; /* owned */
	unsigned count;
};

/* Makes `count` buffers and lends them to the kernel.  r owns them until
 * ring_take_down.  -1 and err. */
int ring_make_buffers(struct ring *r, unsigned count, struct err *err);
/* Lends buffer `id` to the kernel again after its bytes were delivered; a new block
 * takes its place if somebody still holds a reference to the old one. */
void ring_buffers_return(struct ring_buffers *b, unsigned id);

/* The pieces of one send. */
struct ring_gather {
	struct msghdr message;
	struct iovec iov[RING_PIECES];
};

struct ring_port {
	struct node node;      /* in ring.open */
	struct node unsettled; /* in ring.unsettled */
	void *owner;           /* borrowed; NULL: the owner has left */
	struct ring *ring;
	struct ring_gather *gather; /* NULL: the send has only one piece */
	int32_t send_result;        /* result of the send, as the completion has it */
	uint32_t send_size;
	/* position in the queue of the request to send or to close */
	unsigned request_at;
	int fd;
	/* number of receives in a row that were small */
	uint8_t small_count;
	bool wants_bytes : 1;
	bool is_receiving : 1; /* the kernel has a request to receive */
	bool is_cancelled : 1; /* it also has a request to cancel that */
	bool is_watched : 1;   /* that request only waits until there are bytes */
	bool is_bulky : 1;     /* the next one will do so */
	bool is_polling : 1;
	bool is_sending : 1;
	bool is_closed : 1;
};

struct ring_listener {
	struct node node; /* in ring.listeners */
	struct ring *ring;
	/* NULL: the listener was freed, but its request has not ended */
	void (*ready)(void *owner);
	void *owner; /* borrowed */
	int fd;
	/* the kernel has a request, or its completion is not yet reported */
	bool is_armed;
};

struct ring {
	struct io_uring uring;
	struct ring_buffers buffers;
	struct slab *ports, *gathers, *listener_slab;
	struct list open;      /* struct ring_port by .node */
	struct list listeners; /* struct ring_listener by .node */
	/* ports with a pending send or close, in order of their requests */
	struct list unsettled;
	struct io_uring_cqe *batch; /* owned; completions that are not yet reported */
	size_t batch_at, batch_count, batch_cap;
	struct io_uring_sqe unread;
	const struct ring_ops *ops; /* borrowed */
	int joined_fd;              /* borrowed; -1: none */
	int broken;                 /* errno; 0: the ring works */
	bool is_joined_armed, is_joined_ready;
	bool is_hurried; /* the next wait returns at once */
};

/* Frees everything; pending requests are dropped by the kernel. */
void ring_take_down(struct ring *r);

#endif
#endif
