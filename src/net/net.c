#include "net/net.h"

#include "net/stream_parts.h"

enum { ROUNDS_DEFAULT = 5 };

void net_init(struct net *net, struct loop *loop, struct mem *mem)
{
	*net = (struct net){
	    .loop = loop,
	    .engine = &stream_ready,
	    .blocks = block_pool_new(BLOCK_SIZE, BLOCK_FREE_MOST),
	    .smalls = block_pool_new(BLOCK_SMALL, BLOCK_SMALL_FREE_MOST),
	    .queues = stream_queue_slab(mem),
	    .secured = slab_new(mem, "stream_tls", sizeof(struct stream_tls)),
	    .rounds = ROUNDS_DEFAULT,
	    .mem = mem,
	};
	stream_rest_init(net);
}

void net_done(struct net *net)
{
	stream_ring_stop(net);
	stream_rest_done(net);
	block_unref(net->current);
	net->current = NULL;
	block_pool_free(&net->blocks);
	block_pool_free(&net->smalls);
	slab_free(&net->queues);
	slab_free(&net->secured);
}

int net_start_ring(
    struct net *net, void (*lost)(void *ctx, int errnum), void *ctx, struct err *err)
{
	return stream_ring_begin(net, lost, ctx, err);
}

const char *net_engine_name(const struct net *net)
{
	return net->engine->name;
}

size_t net_ring_usage(
    const struct net *net, size_t *used, size_t *free_count, size_t *bytes)
{
	stream_ring_usage(net, used, free_count, bytes);
	return *bytes / (*used + *free_count);
}
