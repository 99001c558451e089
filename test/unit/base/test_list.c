/*
 * The intrusive list against what its header promises.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/list.h"

struct item {
	int value;
	struct node node;
};

static void expect_order(struct list *l, const int *values, size_t count)
{
	struct item *item;
	size_t i = 0;

	assert_int_equal(l->count, count);
	list_for (item, l, node) {
		assert_true(i < count);
		assert_int_equal(item->value, values[i]);
		i++;
	}
	assert_int_equal(i, count);
}

static void empty_list(void **state)
{
	struct list l;

	(void)state;
	list_init(&l);
	assert_true(list_is_empty(&l));
	assert_null(list_first(&l));
	assert_null(list_last(&l));
	assert_null(list_pop_front(&l));
	expect_order(&l, NULL, 0);
}

static void pushes_and_removals(void **state)
{
	struct item a = {.value = 1}, b = {.value = 2}, c = {.value = 3};
	struct list l;

	(void)state;
	list_init(&l);
	assert_false(node_is_linked(&b.node));
	list_push_back(&l, &b.node);
	list_push_back(&l, &c.node);
	list_push_front(&l, &a.node);
	assert_true(node_is_linked(&b.node));
	expect_order(&l, (int[]){1, 2, 3}, 3);
	assert_ptr_equal(list_first(&l), &a.node);
	assert_ptr_equal(list_last(&l), &c.node);
	assert_ptr_equal(list_next(&l, &a.node), &b.node);
	assert_null(list_next(&l, &c.node));

	list_remove(&l, &b.node);
	assert_false(node_is_linked(&b.node));
	expect_order(&l, (int[]){1, 3}, 2);
	list_insert_before(&l, &c.node, &b.node);
	expect_order(&l, (int[]){1, 2, 3}, 3);

	assert_ptr_equal(list_pop_front(&l), &a.node);
	assert_false(node_is_linked(&a.node));
	expect_order(&l, (int[]){2, 3}, 2);
}

static void removal_during_a_walk(void **state)
{
	struct item items[6], *item, *next;
	struct list l;

	(void)state;
	list_init(&l);
	for (int i = 0; i < 6; i++) {
		items[i] = (struct item){.value = i};
		list_push_back(&l, &items[i].node);
	}
	list_for_safe (item, next, &l, node) {
		if (item->value % 2 == 0)
			list_remove(&l, &item->node);
	}
	expect_order(&l, (int[]){1, 3, 5}, 3);
	list_for_safe (item, next, &l, node)
		list_remove(&l, &item->node);
	assert_true(list_is_empty(&l));
}

/* Nodes are removed and added between the steps of a walk. */
static void walk_in_parts(void **state)
{
	struct list_walk walk;
	struct item items[5];
	struct list l;

	(void)state;
	list_init(&l);
	list_walk_begin(&walk, &l);
	assert_null(list_walk_next(&walk, &l));
	for (int i = 0; i < 4; i++)
		list_push_back(&l, &items[i].node);
	list_walk_begin(&walk, &l);
	assert_ptr_equal(list_walk_next(&walk, &l), &items[0].node);
	for (int i = 0; i < 2; i++) {
		list_walk_leave(&walk, &l, &items[i].node);
		list_remove(&l, &items[i].node);
	}
	assert_ptr_equal(list_walk_next(&walk, &l), &items[2].node);
	list_push_back(&l, &items[4].node);
	assert_ptr_equal(list_walk_next(&walk, &l), &items[3].node);
	list_walk_leave(&walk, &l, &items[4].node);
	list_remove(&l, &items[4].node);
	assert_null(list_walk_next(&walk, &l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(empty_list),
	    cmocka_unit_test(pushes_and_removals),
	    cmocka_unit_test(removal_during_a_walk),
	    cmocka_unit_test(walk_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
