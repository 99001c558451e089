/*
 * Memory is allocated in four ways:
 *   mem_*      for small things of fixed size; if memory runs out, the process
 *              writes a message and stops.
 *   mem_try*   for anything whose size a peer chose; these may return NULL, and
 *              the caller then closes that peer with "out of memory".
 *   slab       for objects of one kind, which SHOW MEM counts by name.
 *   arena      for things that are freed together, such as a configuration snapshot.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_zero(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_resize(void *p, size_t size) __attribute__((returns_nonnull));
/* Like mem_zero, but aligned to a cache line, for data that several threads use. */
void *mem_zero_lines(size_t size) __attribute__((malloc, returns_nonnull));
char *mem_strdup(const char *s) __attribute__((malloc, returns_nonnull));
void *mem_dup(const void *p, size_t len) __attribute__((malloc, returns_nonnull));
void mem_free(void *p);
/* Wipes the text before it frees it.  NULL is allowed. */
void mem_free_secret(char *text);

void *mem_try(size_t size) __attribute__((malloc));
/* NULL: there is no memory, and p is unchanged. */
void *mem_try_resize(void *p, size_t size);

/* Overwrites a secret in a way that the compiler cannot optimize away. */
void mem_wipe(void *p, size_t len);
/* Overwrites a secret text, even through a pointer to const.  NULL: does nothing. */
void mem_wipe_text(const char *text);
/* Compares in constant time, so that the duration does not reveal where the two
 * differ.  Returns 1 when they are equal. */
int mem_equal_const_time(const void *a, const void *b, size_t len);
/* Fills p with random bytes from the system.  The process stops when the system has
 * none. */
void mem_random(void *p, size_t len);

/* What the process uses, in bytes, as the kernel counts it: addresses, and pages in
 * memory.  Where it does not tell, nothing is changed. */
void mem_of_process(uint64_t *virtual, uint64_t *resident);

/* A slab hands out objects of one size, zeroed, and keeps returned ones on a free
 * list.  It allocates several objects at once, aligned for pointers.  All slabs of a
 * thread belong to one struct mem, whose list SHOW MEM walks. */
struct mem {
	struct list slabs; /* struct slab by .node */
	/* Random bytes in reserve: the last random_left of these are unused. */
	uint8_t random[256];
	size_t random_left;
};

struct slab {
	struct node node;
	const char *name;
	size_t size; /* bytes of one object */
	size_t used; /* number of objects handed out */
	size_t free; /* number of objects on the free list */
	void *free_list;
	struct slab_chunk *chunks; /* owned; the newest first */
	/* objects of the newest chunk that were never handed out */
	size_t fresh;
	size_t next_count; /* number of objects that the next chunk will have; 0: each
			      object is allocated alone */
	struct mem *mem;
};

void mem_init(struct mem *m);
/* Returns random bytes like mem_random, but fetches many from the system at once, which
 * is cheaper for small amounts.  A process must not fork after calling it, because the
 * child would get the same bytes. */
void mem_draw(struct mem *m, void *p, size_t len);
/* Makes a slab, which belongs to m.  The name is borrowed (a string literal). */
struct slab *slab_new(struct mem *m, const char *name, size_t size);
/* Makes a slab for objects that go from thread to thread: none belongs to a chunk, and
 * none is kept for later.  slab_send takes one out of the count, and slab_receive
 * counts it in the slab of its next thread, where it has the same size. */
struct slab *slab_new_single(struct mem *m, const char *name, size_t size);
void slab_send(struct slab *s);
void slab_receive(struct slab *s);
/* Frees the slab with its free list; all objects must have been put back. */
void slab_free(struct slab **s);
/* Returns zeroed memory. */
void *slab_get(struct slab *s) __attribute__((returns_nonnull));
/* As slab_get, but the memory may hold anything. */
void *slab_take(struct slab *s) __attribute__((returns_nonnull));
void slab_put(struct slab *s, void *object);
/* Bytes of all objects, both in use and on the free list. */
size_t slab_bytes(const struct slab *s);

/* An arena holds many small allocations that are freed at once.  It grows by chunks and
 * never fails. */
struct arena;
struct arena *arena_new(void);
/* does not wipe; the owner of a secret wipes it before */
void arena_free(struct arena **a);
void *arena_alloc(struct arena *a, size_t size)
    __attribute__((returns_nonnull));               /* zeroed */
char *arena_strdup(struct arena *a, const char *s); /* NULL gives NULL */
char *arena_strndup(struct arena *a, const char *s, size_t len);

#endif
