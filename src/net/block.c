#include "net/block.h"

#include <assert.h>
#include <stdbool.h>

#include "base/mem.h"

#if defined(__has_feature)
#	if __has_feature(address_sanitizer)
#		define BLOCK_HAS_ASAN 1
#	endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#	define BLOCK_HAS_ASAN 1
#endif
#if defined(BLOCK_HAS_ASAN)
#	include <sanitizer/asan_interface.h>
#endif

struct block_pool {
	size_t size;      /* bytes in each block */
	size_t free_most; /* more free blocks than this go back to the system */
	struct block *free_list;
	size_t used, free_count;
	bool is_left; /* it is freed with the last block in use */
};

struct block_pool *block_pool_new(size_t size, size_t free_most)
{
	struct block_pool *pool = mem_zero(sizeof(*pool));

	pool->size = size;
	pool->free_most = free_most;
	return pool;
}

void block_pool_leave(struct block_pool **pp)
{
	struct block_pool *pool = *pp;

	if (!pool)
		return;
	*pp = NULL;
	while (pool->free_list) {
		struct block *b = pool->free_list;
		pool->free_list = b->next_free;
		mem_free(b);
	}
	pool->free_count = pool->free_most = 0;
	pool->is_left = true;
	if (!pool->used)
		mem_free(pool);
}

void block_pool_free(struct block_pool **pp)
{
	assert(!*pp || (*pp)->used == 0);
	block_pool_leave(pp);
}

static struct block *take_free(struct block_pool *pool)
{
	struct block *b = pool->free_list;

	pool->free_list = b->next_free;
	pool->free_count--;
#if defined(BLOCK_HAS_ASAN)
	ASAN_UNPOISON_MEMORY_REGION(b->bytes, b->cap);
#else
	(void)b;
#endif
	return b;
}

struct block *block_get(struct block_pool *pool)
{
	struct block *b =
	    pool->free_list ? take_free(pool) : mem_alloc(sizeof(*b) + pool->size);

	*b = (struct block){.refs = 1, .cap = (uint32_t)pool->size, .pool = pool};
	pool->used++;
	return b;
}

struct block *block_new(size_t cap)
{
	struct block *b =
	    cap > UINT32_MAX - sizeof(*b) ? NULL : mem_try(sizeof(*b) + cap);

	if (b)
		*b = (struct block){.refs = 1, .cap = (uint32_t)cap};
	return b;
}

struct block *block_grow(struct block *b, size_t cap)
{
	assert(!b->pool && b->refs == 1 && cap >= b->cap);
	struct block *bigger =
	    cap > UINT32_MAX - sizeof(*b) ? NULL : mem_try_resize(b, sizeof(*b) + cap);

	if (bigger)
		bigger->cap = (uint32_t)cap;
	return bigger;
}

void block_unref(struct block *b)
{
	if (!b)
		return;
	assert(b->refs > 0);
	if (--b->refs)
		return;
	struct block_pool *pool = b->pool;
	if (pool) {
		pool->used--;
		if (pool->free_count >= pool->free_most) {
			mem_free(b);
			if (pool->is_left && !pool->used)
				mem_free(pool);
			return;
		}
		/* with AddressSanitizer, forbids access to the bytes of a free block,
		 * which finds spans that are used after the last reference to their
		 * block */
#if defined(BLOCK_HAS_ASAN)
		ASAN_POISON_MEMORY_REGION(b->bytes, b->cap);
#else
		(void)b;
#endif
		b->next_free = pool->free_list;
		pool->free_list = b;
		pool->free_count++;
	} else {
		mem_free(b);
	}
}

void block_pool_usage(
    const struct block_pool *pool, size_t *used, size_t *free_count, size_t *bytes)
{
	*used = pool->used;
	*free_count = pool->free_count;
	*bytes = (pool->used + pool->free_count) * (sizeof(struct block) + pool->size);
}
