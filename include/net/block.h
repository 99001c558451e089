/*
 * Reference-counted receive blocks and the spans of them.  Bytes that came from one
 * peer and go to another are never copied: a span holds its block until the kernel has
 * taken the bytes.  Blocks belong to the loop's pool; an idle connection owns none.
 */
#ifndef NET_BLOCK_H
#define NET_BLOCK_H

#include <stddef.h>
#include <stdint.h>

struct block_pool;

struct block {
	uint32_t refs;
	uint32_t cap;  /* bytes that fit */
	uint32_t used; /* bytes filled so far; the rest is free for the next receive */
	struct block_pool *pool; /* NULL: a lone block from plain memory */
	struct block *next_free;
	uint8_t bytes[];
};

enum { BLOCK_SIZE = 65536, BLOCK_MIN_ROOM = 8192, BLOCK_FREE_MOST = 64 };

/* Blocks of so many bytes; more free ones than free_most go back to the system. */
struct block_pool *block_pool_new(size_t size, size_t free_most);
void block_pool_free(struct block_pool **pool);
/* An empty block with one reference. */
struct block *block_get(struct block_pool *pool);
/* A lone block of just this capacity (cap bytes, used 0); NULL when there is no memory.
 */
struct block *block_new(size_t cap);
/* A lone block with one reference and more room; a large one moves without being
 * copied.  NULL: no memory, and b is as it was. */
struct block *block_grow(struct block *b, size_t cap);
static inline struct block *block_ref(struct block *b)
{
	b->refs++;
	return b;
}
void block_unref(struct block *b); /* NULL is fine */
/* For SHOW MEM: blocks in use and free, bytes held. */
void block_pool_usage(
    const struct block_pool *pool, size_t *used, size_t *free_count, size_t *bytes);

struct span {
	struct block
	    *block; /* one reference; NULL: the bytes are constant and outlive all */
	const uint8_t *bytes;
	size_t len;
};

#endif
