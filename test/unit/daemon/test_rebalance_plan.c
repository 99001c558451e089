/*
 * Who gives clients to whom.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/rebalance_plan.h"

enum { COUNT = 3 };

static struct rebalance_load load(unsigned clients, unsigned busy)
{
	return (struct rebalance_load){true, clients, busy};
}

static struct rebalance_plan plan(
    struct rebalance_load a, struct rebalance_load b, struct rebalance_load c)
{
	return rebalance_plan((const struct rebalance_load[COUNT]){a, b, c}, COUNT);
}

static void assert_plan(struct rebalance_plan got, enum rebalance_kind kind,
    unsigned from, unsigned to, unsigned amount)
{
	assert_int_equal(got.kind, kind);
	if (kind == REBALANCE_NONE)
		return;
	assert_int_equal(got.from, from);
	assert_int_equal(got.to, to);
	assert_int_equal(got.amount, amount);
}

static void even_load_stays(void **state)
{
	(void)state;
	assert_plan(plan(load(0, 0), load(0, 0), load(0, 0)), REBALANCE_NONE, 0, 0, 0);
	assert_plan(
	    plan(load(9, 99), load(8, 90), load(9, 60)), REBALANCE_NONE, 0, 0, 0);
	/* nobody has too much, or nobody has room */
	assert_plan(plan(load(9, 80), load(9, 0), load(9, 0)), REBALANCE_NONE, 0, 0, 0);
	assert_plan(
	    plan(load(9, 100), load(9, 40), load(9, 40)), REBALANCE_NONE, 0, 0, 0);
}

/* Half of the difference goes. */
static void work_goes_to_who_has_least(void **state)
{
	(void)state;
	assert_plan(
	    plan(load(9, 90), load(9, 30), load(9, 0)), REBALANCE_ACTIVE, 0, 2, 50);
	assert_plan(
	    plan(load(9, 10), load(9, 81), load(9, 39)), REBALANCE_ACTIVE, 1, 0, 43);
	assert_plan(
	    plan(load(9, 39), load(9, 39), load(9, 100)), REBALANCE_ACTIVE, 2, 0, 30);
}

static void numbers_are_levelled(void **state)
{
	(void)state;
	assert_plan(plan(load(16, 0), load(8, 0), load(0, 0)), REBALANCE_IDLE, 0, 2, 4);
	assert_plan(
	    plan(load(30, 0), load(400, 0), load(20, 0)), REBALANCE_IDLE, 1, 2, 16);
	/* the difference is small, or not more than twice */
	assert_plan(plan(load(15, 0), load(0, 0), load(0, 0)), REBALANCE_NONE, 0, 0, 0);
	assert_plan(
	    plan(load(100, 0), load(50, 0), load(70, 0)), REBALANCE_NONE, 0, 0, 0);
}

/* Idle clients are no help to a worker that has too much to do already, and work goes
 * first. */
static void numbers_yield_to_work(void **state)
{
	(void)state;
	assert_plan(
	    plan(load(90, 50), load(2, 90), load(9, 50)), REBALANCE_IDLE, 0, 2, 16);
	assert_plan(
	    plan(load(90, 50), load(2, 90), load(80, 50)), REBALANCE_NONE, 0, 0, 0);
	assert_plan(
	    plan(load(90, 30), load(2, 90), load(80, 45)), REBALANCE_ACTIVE, 1, 0, 33);
}

static void who_does_not_answer_takes_no_part(void **state)
{
	(void)state;
	const struct rebalance_load none = {.is_there = false};

	assert_plan(plan(none, load(90, 90), load(90, 50)), REBALANCE_NONE, 0, 0, 0);
	assert_plan(plan(load(90, 90), none, load(0, 0)), REBALANCE_ACTIVE, 0, 2, 50);
	assert_plan(plan(none, load(90, 0), load(0, 0)), REBALANCE_IDLE, 1, 2, 16);
	assert_plan(plan(none, none, none), REBALANCE_NONE, 0, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(even_load_stays),
	    cmocka_unit_test(work_goes_to_who_has_least),
	    cmocka_unit_test(numbers_are_levelled),
	    cmocka_unit_test(numbers_yield_to_work),
	    cmocka_unit_test(who_does_not_answer_takes_no_part),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
