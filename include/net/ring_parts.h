/*
 * What the files of net/ring share; nobody else includes it.
 */
#ifndef NET_RING_PARTS_H
#define NET_RING_PARTS_H

#include "config.h"
#include "net/ring.h"

#ifdef HAVE_URING

#	include <liburing.h>
/* A macro of linux/fs.h, which liburing includes: net/block.h means its own. */
#	undef BLOCK_SIZE
#	include <sys/socket.h>

#	include "base/list.h"

/* Buffers that the kernel fills, by group. */
enum {
	RING_SMALL,
	RING_LARGE,
	RING_GROUPS,
	RING_SMALL_SIZE = 8192,
};

struct ring_buffers {
	struct io_uring_buf_ring *shared; /* owned: with the kernel */
	struct block **blocks;            /* owned: by id, each with one reference */
	struct block_pool *pool;          /* owned */
	unsigned count;
};

/* Make `count` buffers of `size` bytes each (RING_SMALL or RING_LARGE says for what)
 * and lend them to the kernel.  r owns them until ring_take_down.  -1 and err. */
int ring_make_buffers(
    struct ring *r, int group, unsigned count, size_t size, struct err *err);
/* The bytes in buffer `id` have been delivered.  The kernel gets its block back, or a
 * new one if somebody still holds a reference to the old one. */
void ring_buffers_return(struct ring_buffers *b, unsigned id);

/* The pieces of one send. */
struct ring_gather {
	struct msghdr message;
	struct iovec iov[RING_PIECES];
};

struct ring_port {
	struct node node;      /* in ring.open */
	struct node unsettled; /* in ring.unsettled */
	void *owner;           /* borrowed; NULL: it left */
	struct ring *ring;
	struct ring_gather *gather; /* NULL: the send has one piece */
	int32_t send_result;        /* as completions have it */
	uint32_t send_size;
	unsigned request_at; /* of its send, or of the close */
	int fd;
	uint8_t small_count; /* receives in a row that did not need a large buffer */
	bool wants_bytes : 1;
	bool is_receiving : 1; /* the kernel has a request to receive */
	bool is_cancelled : 1; /* ... and one to forget it */
	bool is_single : 1;    /* ... which is for one large buffer */
	bool is_bulky : 1;     /* the next one will be */
	bool is_polling : 1;
	bool is_sending : 1;
	bool is_closed : 1;
};

struct ring_listener {
	struct node node; /* in ring.listeners */
	struct ring *ring;
	void (*ready)(void *owner); /* NULL: it was freed, its request has not ended */
	void *owner;                /* borrowed */
	int fd;
	bool is_armed; /* the kernel has a request, or its completion is not told yet */
};

struct ring {
	struct io_uring uring;
	struct ring_buffers buffers[RING_GROUPS];
	struct slab *ports, *gathers, *listener_slab;
	struct list open;      /* struct ring_port by .node */
	struct list listeners; /* struct ring_listener by .node */
	struct list
	    unsettled; /* ports with a send or close, in order of the requests */
	struct io_uring_cqe *batch; /* owned: completions not told yet */
	size_t batch_at, batch_count, batch_cap;
	struct io_uring_sqe unread;
	const struct ring_ops *ops; /* borrowed */
	int joined_fd;              /* borrowed; -1: none */
	int broken;                 /* errno; 0: it works */
	bool is_joined_armed, is_joined_ready;
};

/* Frees everything; the kernel forgets what is pending. */
void ring_take_down(struct ring *r);

#endif
#endif
