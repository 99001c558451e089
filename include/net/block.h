/*
 * Reference-counted blocks of received bytes, and spans, which refer to a part of a
 * block.  Bytes that go from one peer to another are not copied: a span holds its block
 * until the kernel has taken the bytes.  Blocks come from the pool of the loop; an idle
 * connection has none.
 */
#ifndef NET_BLOCK_H
#define NET_BLOCK_H

#include <stddef.h>
#include <stdint.h>

struct block_pool;

struct block {
	uint32_t refs;
	uint32_t cap;  /* size of the block's memory */
	uint32_t used; /* bytes filled so far; the rest is free for the next receive */
	struct block_pool *pool; /* NULL: a single block, which belongs to no pool */
	struct block *next_free;
	uint8_t bytes[];
};

enum { BLOCK_SIZE = 65536, BLOCK_MIN_ROOM = 8192, BLOCK_FREE_MOST = 64 };
/* the size of blocks for a few bytes that wait, such as a query without a server */
enum { BLOCK_SMALL = 256, BLOCK_SMALL_FREE_MOST = 256 };

/* Makes a pool of blocks with `size` bytes.  It keeps up to free_most free blocks and
 * gives the others back to the system. */
struct block_pool *block_pool_new(size_t size, size_t free_most);
/* No block may be in use. */
void block_pool_free(struct block_pool **pool);
/* Blocks in use stay; the pool is freed with the last of them. */
void block_pool_leave(struct block_pool **pool);
/* Returns an empty block with one reference. */
struct block *block_get(struct block_pool *pool);
/* Makes a single block outside of a pool, with room for exactly cap bytes.  NULL: no
 * memory. */
struct block *block_new(size_t cap);
/* Gives more room to a block made by block_new that has one reference.  A large one is
 * moved by the kernel without copying.  NULL: no memory, and b is unchanged. */
struct block *block_grow(struct block *b, size_t cap);
static inline struct block *block_ref(struct block *b)
{
	b->refs++;
	return b;
}
void block_unref(struct block *b); /* b may be NULL */
/* For SHOW MEM: number of blocks in use, of free blocks, and their bytes. */
void block_pool_usage(
    const struct block_pool *pool, size_t *used, size_t *free_count, size_t *bytes);

struct span {
	/* one reference; NULL: the bytes are constant and live for the whole run */
	struct block *block;
	const uint8_t *bytes;
	size_t len;
};

#endif
