/*
 * The buffers that the kernel fills, and freeing a ring.
 */
#include "config.h"
#include "net/ring_parts.h"

#ifdef HAVE_URING

#	include <stdlib.h>
#	include <string.h>
#	include <unistd.h>

static void give(struct ring_buffers *b, unsigned id)
{
	struct block *block = b->blocks[id];

	io_uring_buf_ring_add(b->shared, block->bytes, block->cap, (unsigned short)id,
	    io_uring_buf_ring_mask(b->count), 0);
	io_uring_buf_ring_advance(b->shared, 1);
}

void ring_buffers_return(struct ring_buffers *b, unsigned id)
{
	struct block *block = b->blocks[id];

	if (block->refs > 1) {
		block_unref(block);
		b->blocks[id] = block_get(b->pool);
	}
	give(b, id);
}

int ring_make_buffers(struct ring *r, unsigned count, struct err *err)
{
	struct ring_buffers *b = &r->buffers;
	void *shared;

	if (posix_memalign(&shared, (size_t)sysconf(_SC_PAGESIZE),
		count * sizeof(struct io_uring_buf)) != 0)
		return err_set_row(err, ERROR_OUT_OF_MEMORY);
	memset(shared, 0, count * sizeof(struct io_uring_buf));
	b->shared = shared;
	b->count = count;
	struct io_uring_buf_reg reg = {
	    .ring_addr = (uint64_t)(uintptr_t)shared,
	    .ring_entries = count,
	    .bgid = RING_BUFFERS,
	};
	int result = io_uring_register_buf_ring(&r->uring, &reg, 0);
	if (result < 0)
		return err_set(err, "cannot register buffers: %s", strerror(-result));
	io_uring_buf_ring_init(b->shared);
	b->pool = block_pool_new(RING_BUFFER_SIZE, count);
	b->blocks = mem_zero(count * sizeof(*b->blocks));
	for (unsigned id = 0; id < count; id++) {
		b->blocks[id] = block_get(b->pool);
		give(b, id);
	}
	return 0;
}

void ring_take_down(struct ring *r)
{
	if (r->uring.ring_fd >= 0)
		io_uring_queue_exit(&r->uring);
	for (unsigned id = 0; r->buffers.blocks && id < r->buffers.count; id++)
		block_unref(r->buffers.blocks[id]);
	mem_free(r->buffers.blocks);
	/* streams that go on without the ring may have bytes to send */
	block_pool_leave(&r->buffers.pool);
	free(r->buffers.shared);
	slab_free(&r->ports);
	slab_free(&r->gathers);
	slab_free(&r->listener_slab);
	mem_free(r->batch);
	mem_free(r);
}

#endif
