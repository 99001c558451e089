/*
 * Memory: allocations that may fail, comparing, slabs, arenas.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/mem.h"

static void plain_allocations(void **state)
{
	(void)state;
	mem_free(mem_alloc(0));
	mem_free(NULL);
	char *zero = mem_zero(100);
	for (int i = 0; i < 100; i++)
		assert_int_equal(zero[i], 0);
	zero = mem_resize(zero, 1000);
	mem_free(zero);
	char *s = mem_strdup("text");
	assert_string_equal(s, "text");
	mem_free(s);
	char *d = mem_dup("a\0b", 3);
	assert_memory_equal(d, "a\0b", 3);
	mem_free(d);
	mem_free(mem_dup(NULL, 0));
}

static void sizes_beyond_reason_fail(void **state)
{
	(void)state;
	assert_null(mem_try(SIZE_MAX));
	assert_null(mem_try(SIZE_MAX / 2));
	char *p = mem_try(10);
	assert_non_null(p);
	memcpy(p, "123456789", 10);
	assert_string_equal(p, "123456789");
	mem_free(p);
	p = mem_try(0);
	assert_non_null(p);
	mem_free(p);
}

static void wiping_and_comparing(void **state)
{
	char secret[8] = "secret!", zero[8] = {0};

	(void)state;
	assert_true(mem_equal_const_time(secret, "secret!", 8));
	assert_false(mem_equal_const_time(secret, "Secret!", 8));
	assert_false(mem_equal_const_time(secret, "secret?", 8));
	assert_true(mem_equal_const_time(secret, "x", 0));
	mem_wipe(secret, sizeof(secret));
	assert_memory_equal(secret, zero, sizeof(zero));
	mem_wipe(NULL, 0);
}

static void random_bytes_differ(void **state)
{
	unsigned char a[1000], b[1000];

	(void)state;
	memset(a, 0, sizeof(a));
	memset(b, 0, sizeof(b));
	mem_random(a, sizeof(a));
	mem_random(b, sizeof(b));
	assert_memory_not_equal(a, b, 500);
	assert_memory_not_equal(a + 500, b + 500, 500);
	mem_random(a, 0);
}

/* Such an object may be put back into the slab of another thread. */
static void single_objects_change_slabs(void **state)
{
	(void)state;
	struct mem here, there;

	mem_init(&here);
	mem_init(&there);
	struct slab *from = slab_new_single(&here, "things", 40);
	struct slab *to = slab_new_single(&there, "things", 40);
	unsigned char *a = slab_get(from), *b = slab_get(from);
	memset(a, 1, 40);
	assert_int_equal(from->used, 2);
	slab_send(from);
	slab_receive(to);
	assert_int_equal(from->used, 1);
	slab_put(from, b);
	slab_free(&from);
	assert_int_equal(a[39], 1);
	assert_int_equal(slab_bytes(to), 40);
	slab_put(to, a);
	assert_int_equal(slab_bytes(to), 0);
	slab_free(&to);
}

static void slab_counts_and_reuses(void **state)
{
	struct mem m;
	unsigned char zero[40] = {0};

	(void)state;
	mem_init(&m);
	struct slab *s = slab_new(&m, "things", 40), *tiny = slab_new(&m, "tiny", 1);
	assert_int_equal(m.slabs.count, 2);
	assert_string_equal(
	    container_of(list_first(&m.slabs), struct slab, node)->name, "things");
	assert_int_equal(slab_bytes(s), 0);

	unsigned char *a = slab_get(s), *b = slab_get(s);
	assert_memory_equal(a, zero, 40);
	memset(a, 0xee, 40);
	assert_int_equal(s->used, 2);
	assert_int_equal(s->free, 0);
	assert_int_equal(slab_bytes(s), 80);
	slab_put(s, a);
	assert_int_equal(s->used, 1);
	assert_int_equal(s->free, 1);
	assert_int_equal(slab_bytes(s), 80);
	unsigned char *c = slab_get(s);
	assert_ptr_equal(a, c);
	assert_memory_equal(c, zero, 40);
	assert_int_equal(s->free, 0);
	slab_put(s, b);
	slab_put(s, c);
	slab_put(s, NULL);
	assert_int_equal(s->free, 2);

	slab_put(tiny, slab_get(tiny));
	slab_free(&tiny);
	assert_null(tiny);
	assert_int_equal(m.slabs.count, 1);
	slab_free(&s);
	slab_free(&s);
	assert_true(list_is_empty(&m.slabs));
}

static void arena_holds_everything(void **state)
{
	struct arena *a = arena_new();
	char *texts[500];

	(void)state;
	assert_null(arena_strdup(a, NULL));
	for (size_t i = 0; i < 500; i++) {
		char text[8];
		size_t size = i % 7 == 0 ? i * 100 : i % 50;
		memset(text, 'a' + (int)(i % 26), sizeof(text));
		texts[i] = arena_strndup(a, text, i % 8);
		unsigned char *p = arena_alloc(a, size);
		assert_int_equal((uintptr_t)p % 16, 0);
		for (size_t k = 0; k < size; k++)
			assert_int_equal(p[k], 0);
		memset(p, 0xff, size);
	}
	for (size_t i = 0; i < 500; i++) {
		assert_int_equal(strlen(texts[i]), i % 8);
		for (const char *c = texts[i]; *c; c++)
			assert_int_equal(*c, 'a' + (int)(i % 26));
	}
	assert_string_equal(arena_strdup(a, "whole"), "whole");
	assert_string_equal(arena_strndup(a, "whole", 2), "wh");
	assert_string_equal(arena_strndup(a, NULL, 0), "");
	arena_free(&a);
	assert_null(a);
	arena_free(&a);
}

static void draws_are_never_the_same(void **state)
{
	enum { DRAWS = 200, SIZE = 12 };
	static uint8_t drawn[DRAWS][SIZE];
	uint8_t large[300] = {0}, zero[SIZE] = {0};
	struct mem m;

	(void)state;
	mem_init(&m);
	for (int i = 0; i < DRAWS; i++) {
		mem_draw(&m, drawn[i], SIZE);
		assert_memory_not_equal(drawn[i], zero, SIZE);
		for (int k = 0; k < i; k++)
			assert_memory_not_equal(drawn[i], drawn[k], SIZE);
		/* The drawn bytes are not kept in the pool of random bytes. */
		assert_null(memmem(m.random, sizeof(m.random), drawn[i], SIZE));
	}
	mem_draw(&m, large, sizeof(large));
	assert_memory_not_equal(large + sizeof(large) - SIZE, zero, SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plain_allocations),
	    cmocka_unit_test(sizes_beyond_reason_fail),
	    cmocka_unit_test(wiping_and_comparing),
	    cmocka_unit_test(random_bytes_differ),
	    cmocka_unit_test(draws_are_never_the_same),
	    cmocka_unit_test(slab_counts_and_reuses),
	    cmocka_unit_test(single_objects_change_slabs),
	    cmocka_unit_test(arena_holds_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
