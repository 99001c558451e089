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

#define LOAD(clients, busy)         \
	{                           \
		true, clients, busy \
	}
#define SILENT              \
	{                   \
		false, 0, 0 \
	}
#define NONE                            \
	{                               \
		REBALANCE_NONE, 0, 0, 0 \
	}

static const struct {
	struct rebalance_load loads[COUNT];
	struct rebalance_plan plan;
} cases[] = {
    /* even load stays; nobody has too much, or nobody has room */
    {{LOAD(0, 0), LOAD(0, 0), LOAD(0, 0)}, NONE},
    {{LOAD(9, 99), LOAD(8, 90), LOAD(9, 60)}, NONE},
    {{LOAD(9, 80), LOAD(9, 0), LOAD(9, 0)}, NONE},
    {{LOAD(9, 100), LOAD(9, 40), LOAD(9, 40)}, NONE},
    /* work goes to who has least of it: half of the difference */
    {{LOAD(9, 90), LOAD(9, 30), LOAD(9, 0)}, {REBALANCE_ACTIVE, 0, 2, 50}},
    {{LOAD(9, 10), LOAD(9, 81), LOAD(9, 39)}, {REBALANCE_ACTIVE, 1, 0, 43}},
    {{LOAD(9, 39), LOAD(9, 39), LOAD(9, 100)}, {REBALANCE_ACTIVE, 2, 0, 30}},
    /* numbers are levelled, unless the difference is small, or not more than twice */
    {{LOAD(16, 0), LOAD(8, 0), LOAD(0, 0)}, {REBALANCE_IDLE, 0, 2, 4}},
    {{LOAD(30, 0), LOAD(400, 0), LOAD(20, 0)}, {REBALANCE_IDLE, 1, 2, 16}},
    {{LOAD(15, 0), LOAD(0, 0), LOAD(0, 0)}, NONE},
    {{LOAD(100, 0), LOAD(50, 0), LOAD(70, 0)}, NONE},
    /* idle clients are no help to a worker that has too much to do already, and work
     * goes first */
    {{LOAD(90, 50), LOAD(2, 90), LOAD(9, 50)}, {REBALANCE_IDLE, 0, 2, 16}},
    {{LOAD(90, 50), LOAD(2, 90), LOAD(80, 50)}, NONE},
    {{LOAD(90, 30), LOAD(2, 90), LOAD(80, 45)}, {REBALANCE_ACTIVE, 1, 0, 33}},
    /* who does not answer takes no part */
    {{SILENT, LOAD(90, 90), LOAD(90, 50)}, NONE},
    {{LOAD(90, 90), SILENT, LOAD(0, 0)}, {REBALANCE_ACTIVE, 0, 2, 50}},
    {{SILENT, LOAD(90, 0), LOAD(0, 0)}, {REBALANCE_IDLE, 1, 2, 16}},
    {{SILENT, SILENT, SILENT}, NONE},
};

static void plan_fits_loads(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct rebalance_plan *want = &cases[i].plan;
		struct rebalance_plan got = rebalance_plan(cases[i].loads, COUNT);
		print_message("case %zu\n", i);
		assert_int_equal(got.kind, want->kind);
		if (got.kind == REBALANCE_NONE)
			continue;
		assert_int_equal(got.from, want->from);
		assert_int_equal(got.to, want->to);
		assert_int_equal(got.amount, want->amount);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(plan_fits_loads)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
