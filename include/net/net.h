/*
 * What all streams of one thread share, and the choice of the engine: epoll or
 * io_uring.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "net/block.h"
#include "net/loop.h"

struct stream;
struct stream_engine;
struct net_ring;

/* What all streams of one thread share. */
struct net {
	struct loop *loop;
	const struct stream_engine *engine;
	struct net_ring *ring; /* NULL: the engine is epoll */
	struct block_pool *blocks;
	struct block_pool *smalls; /* blocks of BLOCK_SMALL bytes */
	struct block *current;     /* the block that receives of this turn fill */
	/* output queues; a stream has one only while it has output */
	struct slab *queues;
	struct slab *secured; /* struct stream_tls of streams with TLS */
	struct {
		/* the stream whose last span may be extended; NULL: none */
		struct stream *stream;
		struct span *span;
	} growing;
	int rounds; /* the setting sbuf_loopcnt */
	struct {
		/* owned; streams that rest from receiving, NULL: one that has left */
		struct stream **streams;
		size_t count, room;
		struct deadline over; /* the rest of all of them */
	} resting;
	struct {
		uint64_t turn; /* number of the loop's turn that `steps` counts for */
		int steps;     /* handshake steps done in that turn */
	} handshakes;
	struct mem *mem;
};
/* Begins with the engine epoll. */
void net_init(struct net *net, struct loop *loop, struct mem *mem);
/* All streams must be closed. */
void net_done(struct net *net);
/* Uses io_uring for all streams opened from now on; the loop then waits in it.  If
 * io_uring breaks later, all its streams continue with epoll, and `lost` is called (may
 * be NULL).  -1: io_uring is not available, err says why, and nothing has changed. */
int net_start_ring(
    struct net *net, void (*lost)(void *ctx, int errnum), void *ctx, struct err *err);
/* Returns "epoll" or "io_uring". */
const char *net_engine_name(const struct net *net);
/* For SHOW MEM: counts the blocks that io_uring receives into, and returns the size of
 * one. */
size_t net_ring_usage(
    const struct net *net, size_t *used, size_t *free_count, size_t *bytes);

#endif
