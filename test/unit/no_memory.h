/*
 * Memory whose size a peer chooses: the n-th time that it is asked for, there is none.
 * A program of NO_MEMORY_IN (Makefile) includes this once, and the linker sends mem_try
 * here (--wrap).  NO_MEMORY_SPARES says of whoever asks that it is not under test.
 */
#ifndef TEST_UNIT_NO_MEMORY_H
#define TEST_UNIT_NO_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#ifndef NO_MEMORY_SPARES
#	define NO_MEMORY_SPARES false
#endif

struct no_memory {
	bool is_on;
	size_t tries, fail_at;
};

static struct no_memory no_memory;

static inline bool no_memory_now(void)
{
	return no_memory.is_on && !(NO_MEMORY_SPARES) &&
	       ++no_memory.tries == no_memory.fail_at;
}

void *__real_mem_try(size_t size);
void *__wrap_mem_try(size_t size);
void *__wrap_mem_try(size_t size)
{
	return no_memory_now() ? NULL : __real_mem_try(size);
}

void *__real_mem_try_resize(void *p, size_t size);
void *__wrap_mem_try_resize(void *p, size_t size);
void *__wrap_mem_try_resize(void *p, size_t size)
{
	return no_memory_now() ? NULL : __real_mem_try_resize(p, size);
}

/* Whether the n-th try has come, and has failed. */
static inline bool no_memory_has_failed(void)
{
	return no_memory.tries >= no_memory.fail_at;
}

/* What follows is done with n = 1, 2 and so on, up to an n that is not reached; what
 * stands between no_memory.is_on = true and = false may fail. */
#define for_each_failure(n)                                       \
	for (size_t n = 1; n == 1 || no_memory_has_failed(); n++) \
		if ((no_memory = (struct no_memory){.fail_at = n}).fail_at > 0)

#endif
