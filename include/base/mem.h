/*
 * Memory.  Three ways, and the difference matters:
 *   mem_*    small fixed things of our own: no memory stops the process with a message.
 *   try_*    anything whose size a peer chose: may return NULL; the caller closes
 *            that peer with "out of memory".
 *   slab     objects of one kind, counted by name for SHOW MEM.
 * An arena holds what lives and dies together (a configuration snapshot).
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_zero(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_resize(void *p, size_t size) __attribute__((returns_nonnull));
char *mem_strdup(const char *s) __attribute__((malloc, returns_nonnull));
void *mem_dup(const void *p, size_t len) __attribute__((malloc, returns_nonnull));
void mem_free(void *p);
/* Wipes the text before.  NULL is none. */
void mem_free_secret(char *text);

void *try_alloc(size_t size) __attribute__((malloc));

/* Overwrite a secret so that the compiler cannot leave it out. */
void mem_wipe(void *p, size_t len);
/* Compare without telling by time where they differ. 1 when equal. */
int mem_equal_const_time(const void *a, const void *b, size_t len);
/* Bytes no one can guess.  Stops the process when the system has none. */
void mem_random(void *p, size_t len);

/* Slabs: fixed-size objects, zeroed when handed out, kept on a free list.  They come
 * from the system several at once, and are aligned for pointers.  All slabs
 * of a program hang from one struct mem, whose list SHOW MEM walks. */
struct mem {
	struct list slabs; /* struct slab by .node */
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
/* name is borrowed (a literal).  The slab belongs to m from then on. */
struct slab *slab_new(struct mem *m, const char *name, size_t size);
/* Frees the slab and its free list; handed-out objects must have come back. */
void slab_free(struct slab **s);
void *slab_get(struct slab *s) __attribute__((returns_nonnull));
void slab_put(struct slab *s, void *object);
/* Bytes of all objects that were ever handed out. */
size_t slab_bytes(const struct slab *s);

/* Arena: many small allocations freed at once.  Grows by chunks; never fails. */
struct arena;
struct arena *arena_new(void);
void arena_free(struct arena **a); /* wipes nothing; secrets are wiped by their owner */
void *arena_alloc(struct arena *a, size_t size)
    __attribute__((returns_nonnull));               /* zeroed */
char *arena_strdup(struct arena *a, const char *s); /* NULL gives NULL */
char *arena_strndup(struct arena *a, const char *s, size_t len);

#endif
