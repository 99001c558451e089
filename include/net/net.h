/*
 * What all streams of a process share, and which engine carries their bytes.
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

/* What all streams of a process share. */
struct net {
	struct loop *loop;
	const struct stream_engine *engine;
	struct net_ring *ring; /* NULL: the engine is readiness */
	struct block_pool *blocks;
	struct block *current; /* being filled by receives of this turn */
	struct slab *queues;   /* output queues, handed to streams that have output */
	struct slab *secured;  /* what TLS adds to a stream */
	struct {
		struct stream *stream; /* whose last span may grow; NULL: nobody's */
		struct span *span;
	} growing;
	int rounds; /* sbuf_loopcnt */
	struct {
		uint64_t turn; /* of the loop */
		int steps;     /* of handshakes, in this turn */
	} handshakes;
	struct mem *mem;
};
/* Over readiness, for now. */
void net_init(struct net *net, struct loop *loop, struct mem *mem);
/* All streams are closed. */
void net_done(struct net *net);
/* Streams opened from now on are carried by io_uring, and the loop waits in it.  When
 * it breaks later, all of them go on over readiness, and `lost` is called (may be
 * NULL). -1: it cannot be had; err says why, and nothing has changed. */
int net_start_ring(
    struct net *net, void (*lost)(void *ctx, int errnum), void *ctx, struct err *err);
/* "epoll" or "io_uring". */
const char *net_engine_name(const struct net *net);
/* For SHOW MEM: the blocks that io_uring receives into; gives the size of one. */
size_t net_ring_usage(
    const struct net *net, size_t *used, size_t *free_count, size_t *bytes);

#endif
