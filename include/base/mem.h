/*
 * Memory is allocated in four ways:
 *   mem_*    for small things of fixed size; without memory the process stops with a
 *            message.
 *   try_*    for anything whose size a peer chose; it may return NULL, and then the
 *            caller closes that peer with "out of memory".
 *   slab     for objects of one kind, which SHOW MEM counts by name.
 *   arena    for things that are freed together, such as a configuration snapshot.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_zero(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_resize(void *p, size_t size) __attribute__((returns_nonnull));
/* The same at the beginning of a line of the processor's cache, for what threads share.
 */
void *mem_zero_lines(size_t size) __attribute__((malloc, returns_nonnull));
char *mem_strdup(const char *s) __attribute__((malloc, returns_nonnull));
void *mem_dup(const void *p, size_t len) __attribute__((malloc, returns_nonnull));
void mem_free(void *p);
/* Wipes the text before it frees it.  NULL is allowed. */
void mem_free_secret(char *text);

void *mem_try(size_t size) __attribute__((malloc));
/* NULL: no memory, and p is as it was. */
void *mem_try_resize(void *p, size_t size);

/* Overwrites a secret; the compiler cannot leave that out. */
void mem_wipe(void *p, size_t len);
/* Compares in constant time, so that nobody learns from it where they differ.  1 when
 * equal. */
int mem_equal_const_time(const void *a, const void *b, size_t len);
/* Fills with random bytes from the system; without any the process stops. */
void mem_random(void *p, size_t len);

/* Slabs: fixed-size objects, zeroed when handed out, kept on a free list.  They come
 * from the system several at once, and are aligned for pointers.  All slabs
 * of a program hang from one struct mem, whose list SHOW MEM walks. */
struct mem {
	struct list slabs; /* struct slab by .node */
	/* Random bytes that nobody has had yet: the last random_left of them. */
	uint8_t random[256];
	size_t random_left;
};

struct slab {
	struct node node;
	const char *name;
	size_t size; /* of one object */
	size_t used; /* handed out */
	size_t free; /* on the free list */
	void *free_list;
	struct slab_chunk *chunks; /* owned: the newest first */
	size_t fresh;              /* objects in the newest one not yet handed out */
	size_t next_count;         /* objects in the next one */
	struct mem *mem;
};

void mem_init(struct mem *m);
/* Bytes that no one can guess, few at a time: one call of the system serves many.  A
 * process that forks must not have called it before. */
void mem_draw(struct mem *m, void *p, size_t len);
/* The name is borrowed (a literal).  From then on the slab belongs to m. */
struct slab *slab_new(struct mem *m, const char *name, size_t size);
/* Frees the slab and its free list; all objects must have been put back. */
void slab_free(struct slab **s);
void *slab_get(struct slab *s) __attribute__((returns_nonnull));
void slab_put(struct slab *s, void *object);
/* The bytes of all objects that exist, in use or on the free list. */
size_t slab_bytes(const struct slab *s);

/* An arena holds many small allocations that are freed at once.  It grows by chunks and
 * never fails. */
struct arena;
struct arena *arena_new(void);
void arena_free(struct arena **a); /* wipes nothing; secrets are wiped by their owner */
void *arena_alloc(struct arena *a, size_t size)
    __attribute__((returns_nonnull));               /* zeroed */
char *arena_strdup(struct arena *a, const char *s); /* NULL gives NULL */
char *arena_strndup(struct arena *a, const char *s, size_t len);

#endif
