/*
 * Blocks: references, reuse, single ones, and the pool's counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/block.h"

static void expect_usage(const struct block_pool *pool, size_t used, size_t free_count)
{
	size_t got_used, got_free, bytes;

	block_pool_usage(pool, &got_used, &got_free, &bytes);
	assert_int_equal(got_used, used);
	assert_int_equal(got_free, free_count);
	assert_int_equal(
	    bytes, (used + free_count) * (sizeof(struct block) + BLOCK_SIZE));
}

static void test_reuse(void **state)
{
	struct block_pool *pool = block_pool_new(BLOCK_SIZE, BLOCK_FREE_MOST);
	struct block *a = block_get(pool), *b = block_get(pool);

	(void)state;
	assert_int_equal(a->cap, BLOCK_SIZE);
	assert_int_equal(a->used, 0);
	assert_int_equal(a->refs, 1);
	memset(a->bytes, 1, a->cap);
	expect_usage(pool, 2, 0);
	a->used = 100;
	block_ref(a);
	block_unref(a);
	expect_usage(pool, 2, 0);
	block_unref(a);
	expect_usage(pool, 1, 1);
	struct block *again = block_get(pool);
	assert_ptr_equal(again, a);
	assert_int_equal(again->used, 0);
	memset(again->bytes, 2, again->cap);
	block_unref(again);
	block_unref(b);
	expect_usage(pool, 0, 2);
	block_pool_free(&pool);
	assert_null(pool);
	block_pool_free(&pool);
}

static void test_surplus_goes_back(void **state)
{
	struct block_pool *pool = block_pool_new(BLOCK_SIZE, BLOCK_FREE_MOST);
	struct block *blocks[80];
	size_t used, free_count, bytes;

	(void)state;
	for (size_t i = 0; i < 80; i++)
		blocks[i] = block_get(pool);
	for (size_t i = 0; i < 80; i++)
		block_unref(blocks[i]);
	block_pool_usage(pool, &used, &free_count, &bytes);
	assert_int_equal(used, 0);
	assert_true(free_count < 80);
	block_pool_free(&pool);
}

static void test_lone(void **state)
{
	struct block *b = block_new(3);

	(void)state;
	assert_non_null(b);
	assert_int_equal(b->cap, 3);
	assert_int_equal(b->used, 0);
	memcpy(b->bytes, "abc", 3);
	block_ref(b);
	block_unref(b);
	block_unref(b);
	block_unref(NULL);
	assert_null(block_new(SIZE_MAX));
	assert_null(block_new((size_t)UINT32_MAX));
}

static void test_lone_one_grows(void **state)
{
	struct block *b = block_new(3);

	(void)state;
	memcpy(b->bytes, "abc", b->used = 3);
	b = block_grow(b, 1 << 20);
	assert_non_null(b);
	assert_int_equal(b->cap, 1 << 20);
	assert_int_equal(b->used, 3);
	assert_int_equal(b->refs, 1);
	assert_memory_equal(b->bytes, "abc", 3);
	assert_null(block_grow(b, UINT32_MAX));
	assert_memory_equal(b->bytes, "abc", 3);
	block_unref(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_reuse),
	    cmocka_unit_test(test_surplus_goes_back),
	    cmocka_unit_test(test_lone),
	    cmocka_unit_test(test_lone_one_grows),
	};

	return cmocka_run_group_tests_name("block", tests, NULL, NULL);
}
