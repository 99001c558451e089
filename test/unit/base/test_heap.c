/*
 * The heap against a plain array with the same entries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/heap.h"

enum { NODES = 60, ROUNDS = 20000 };

static void empty(void **state)
{
	struct heap heap = {NULL};
	struct heap_node node = {.key = 0};

	(void)state;
	assert_true(heap_is_empty(&heap));
	assert_null(heap_first(&heap));
	assert_false(heap_has(&node));
	heap_put(&heap, &node, 5);
	assert_true(heap_has(&node));
	assert_ptr_equal(heap_first(&heap), &node);
	heap_remove(&heap, &node);
	assert_true(heap_is_empty(&heap));
	assert_false(heap_has(&node));
}

static uint64_t least_key(const struct heap_node *nodes)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < NODES; i++)
		if (heap_has(&nodes[i]) && nodes[i].key < least)
			least = nodes[i].key;
	return least;
}

static void comings_and_goings(void **state)
{
	struct heap heap = {NULL};
	struct heap_node nodes[NODES] = {{.key = 0}};
	int count = 0;

	(void)state;
	srand(7);
	for (int i = 0; i < ROUNDS; i++) {
		struct heap_node *node = &nodes[rand() % NODES];
		if (rand() % 4 == 0 && count)
			node = heap_first(&heap);
		if (heap_has(node)) {
			heap_remove(&heap, node);
			count--;
		} else {
			heap_put(&heap, node, (uint64_t)rand() % 100);
			count++;
		}
		assert_int_equal(heap_is_empty(&heap), count == 0);
		if (count)
			assert_int_equal(heap_first(&heap)->key, least_key(nodes));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(empty),
	    cmocka_unit_test(comings_and_goings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
