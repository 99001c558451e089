/*
 * Allocation, wiping, random bytes, slabs and arenas.  This file does not use the log:
 * a process without memory writes directly to stderr.
 */
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/crash_flush.h"

#if defined(__has_feature)
#	if __has_feature(address_sanitizer)
#		define MEM_HAS_ASAN 1
#	endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#	define MEM_HAS_ASAN 1
#endif
#if defined(MEM_HAS_ASAN)
#	include <sanitizer/asan_interface.h>
#endif

/* The largest size that a peer may cause to be allocated; larger ones fail at once. */
#define TRY_MOST ((uint64_t)1 << 36)

static void __attribute__((noreturn)) die(const char *message)
{
	crash_flush_say();
	ssize_t ignored = write(STDERR_FILENO, message, strlen(message));
	(void)ignored;
	_exit(1);
}

enum { CACHE_LINE = 64 };

static void *or_die(void *p)
{
	if (!p)
		die("FATAL out of memory\n");
	return p;
}

void *mem_alloc(size_t size)
{
	return or_die(malloc(size ? size : 1));
}

void *mem_zero(size_t size)
{
	return or_die(calloc(1, size ? size : 1));
}

void *mem_zero_lines(size_t size)
{
	size_t lines = (size + CACHE_LINE - 1) / CACHE_LINE;
	void *p = or_die(aligned_alloc(CACHE_LINE, lines * CACHE_LINE));

	return memset(p, 0, size);
}

void *mem_resize(void *p, size_t size)
{
	return or_die(realloc(p, size ? size : 1));
}

char *mem_strdup(const char *s)
{
	return mem_dup(s, strlen(s) + 1);
}

void *mem_dup(const void *p, size_t len)
{
	void *copy = mem_alloc(len);

	if (len)
		memcpy(copy, p, len);
	return copy;
}

void mem_free(void *p)
{
	free(p);
}

void *mem_try(size_t size)
{
	return size > TRY_MOST ? NULL : malloc(size ? size : 1);
}

void *mem_try_resize(void *p, size_t size)
{
	return size > TRY_MOST ? NULL : realloc(p, size ? size : 1);
}

void mem_wipe(void *p, size_t len)
{
	if (len)
		explicit_bzero(p, len);
}

void mem_wipe_text(const char *text)
{
	if (text)
		mem_wipe((char *)(uintptr_t)text, strlen(text));
}

void mem_free_secret(char *text)
{
	if (text)
		mem_wipe(text, strlen(text));
	mem_free(text);
}

int mem_equal_const_time(const void *a, const void *b, size_t len)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t difference = 0;

	for (size_t i = 0; i < len; i++)
		difference |= (uint8_t)(x[i] ^ y[i]);
	return difference == 0;
}

void mem_random(void *p, size_t len)
{
	uint8_t *at = p;

	while (len) {
		ssize_t got = getrandom(at, len, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			die("FATAL no random numbers from the system\n");
		at += got;
		len -= (size_t)got;
	}
}

void mem_of_process(uint64_t *virtual, uint64_t *resident)
{
	char text[64];
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	char *end;

	if (fd >= 0)
		close(fd);
	if (len <= 0)
		return;
	text[len] = '\0';
	*virtual = strtoull(text, &end, 10) * page;
	*resident = strtoull(end, NULL, 10) * page;
}

/* Objects that were allocated together.  With AddressSanitizer each chunk holds a
 * single object, so that it can check each one. */
struct slab_chunk {
	struct slab_chunk *next;
	unsigned char bytes[];
};

enum { SLAB_ALIGNMENT = _Alignof(void *), SLAB_CHUNK_MOST = 16 * 1024 };

/* The beginning of an object on the free list; the rest of the object must not be
 * accessed. */
struct free_object {
	struct free_object *next;
};

static void forbid_use(struct free_object *object, size_t size)
{
#if defined(MEM_HAS_ASAN)
	/* the link stays readable, because the leak checker follows it */
	ASAN_POISON_MEMORY_REGION(object + 1, size - sizeof(*object));
#else
	(void)object, (void)size;
#endif
}

static void permit_use(struct free_object *object, size_t size)
{
#if defined(MEM_HAS_ASAN)
	ASAN_UNPOISON_MEMORY_REGION(object, size);
#else
	(void)object, (void)size;
#endif
}

void mem_init(struct mem *m)
{
	list_init(&m->slabs);
	m->random_left = 0;
}

void mem_draw(struct mem *m, void *p, size_t len)
{
	if (len > sizeof(m->random)) {
		mem_random(p, len);
		return;
	}
	if (len > m->random_left) {
		mem_random(m->random, sizeof(m->random));
		m->random_left = sizeof(m->random);
	}
	uint8_t *from = m->random + sizeof(m->random) - m->random_left;
	memcpy(p, from, len);
	mem_wipe(from, len);
	m->random_left -= len;
}

struct slab *slab_new(struct mem *m, const char *name, size_t size)
{
	struct slab *s = mem_zero(sizeof(*s));

	s->name = name;
	s->size = (size + SLAB_ALIGNMENT - 1) & ~(size_t)(SLAB_ALIGNMENT - 1);
	assert(size > 0 && s->size >= sizeof(struct free_object));
	s->next_count = 1;
	s->mem = m;
	list_push_back(&m->slabs, &s->node);
	return s;
}

struct slab *slab_new_single(struct mem *m, const char *name, size_t size)
{
	struct slab *s = slab_new(m, name, size);

	s->next_count = 0;
	return s;
}

void slab_send(struct slab *s)
{
	assert(!s->next_count && s->used > 0);
	s->used--;
}

void slab_receive(struct slab *s)
{
	assert(!s->next_count);
	s->used++;
}

static struct free_object *pop_free(struct slab *s)
{
	struct free_object *object = s->free_list;

	if (object) {
		s->free_list = object->next;
		s->free--;
		permit_use(object, s->size);
	}
	return object;
}

void slab_free(struct slab **sp)
{
	struct slab *s = *sp;

	if (!s)
		return;
	assert(s->used == 0);
	while (pop_free(s))
		;
	while (s->chunks) {
		struct slab_chunk *chunk = s->chunks;
		s->chunks = chunk->next;
		mem_free(chunk);
	}
	list_remove(&s->mem->slabs, &s->node);
	mem_free(s);
	*sp = NULL;
}

/* Takes the next object of the newest chunk, one that was never handed out. */
static void *take_fresh(struct slab *s)
{
	if (!s->fresh) {
		struct slab_chunk *chunk =
		    mem_zero(sizeof(*chunk) + s->next_count * s->size);
		chunk->next = s->chunks;
		s->chunks = chunk;
		s->fresh = s->next_count;
#if !defined(MEM_HAS_ASAN)
		if (s->next_count * s->size * 2 <= SLAB_CHUNK_MOST)
			s->next_count *= 2;
#endif
	}
	return s->chunks->bytes + --s->fresh * s->size;
}

void *slab_take(struct slab *s)
{
	void *object = s->next_count ? pop_free(s) : mem_alloc(s->size);

	if (!object)
		object = take_fresh(s);
	s->used++;
	return object;
}

void *slab_get(struct slab *s)
{
	void *object = slab_take(s);

	memset(object, 0, s->size);
	return object;
}

void slab_put(struct slab *s, void *p)
{
	struct free_object *object = p;

	if (!p)
		return;
	assert(s->used > 0);
	s->used--;
	if (!s->next_count) {
		mem_free(p);
		return;
	}
	object->next = s->free_list;
	s->free_list = object;
	s->free++;
	forbid_use(object, s->size);
}

size_t slab_bytes(const struct slab *s)
{
	return (s->used + s->free) * s->size;
}

enum { CHUNK_LEAST = 1024, CHUNK_MOST = 256 * 1024, ALIGNMENT = 16 };

struct chunk {
	struct chunk *next;
	size_t len, used;
	_Alignas(ALIGNMENT) char bytes[];
};

struct arena {
	/* the newest first; allocations are taken from the first one */
	struct chunk *chunks;
	size_t next_len;
};

struct arena *arena_new(void)
{
	struct arena *a = mem_zero(sizeof(*a));

	a->next_len = CHUNK_LEAST;
	return a;
}

void arena_free(struct arena **ap)
{
	struct arena *a = *ap;

	if (!a)
		return;
	while (a->chunks) {
		struct chunk *chunk = a->chunks;
		a->chunks = chunk->next;
		mem_free(chunk);
	}
	mem_free(a);
	*ap = NULL;
}

static void *take(struct arena *a, size_t size, size_t alignment)
{
	struct chunk *chunk = a->chunks;
	size_t from = chunk ? (chunk->used + alignment - 1) & ~(alignment - 1) : 0;

	if (!chunk || from > chunk->len || size > chunk->len - from) {
		size_t len = size > a->next_len ? size : a->next_len;
		if (len > SIZE_MAX - sizeof(struct chunk))
			or_die(NULL);
		chunk = mem_zero(sizeof(*chunk) + len);
		chunk->len = len;
		/* A chunk made for one large allocation is full, so the previous chunk
		 * stays in use. */
		if (len == size && a->chunks) {
			chunk->next = a->chunks->next;
			a->chunks->next = chunk;
		} else {
			chunk->next = a->chunks;
			a->chunks = chunk;
		}
		if (a->next_len < CHUNK_MOST)
			a->next_len *= 2;
		from = 0;
	}
	chunk->used = from + size;
	return chunk->bytes + from;
}

void *arena_alloc(struct arena *a, size_t size)
{
	return take(a, size ? size : 1, ALIGNMENT);
}

char *arena_strdup(struct arena *a, const char *s)
{
	return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
	if (len == SIZE_MAX)
		or_die(NULL);
	char *copy = take(a, len + 1, 1);
	if (len)
		memcpy(copy, s, len);
	return copy;
}
