/* When a thread that computes for long sleeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/cpu_time.h"

enum { STEPS = 1000, SLEEPS_LEAST = 3, SLEEPS_MOST = 20 };

/* A thread that sleeps gives its processor away by itself. */
static long sleeps(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_nvcsw;
}

static void test_sleeps_now_and_then(void **state)
{
	struct throttle throttle = {0};
	long before = sleeps();

	(void)state;
	for (int i = 0; i < STEPS; i++)
		throttle_take(&throttle, 1);
	assert_in_range(sleeps() - before, SLEEPS_LEAST, SLEEPS_MOST);
}

static void test_nobody_waits(void **state)
{
	long before = sleeps();

	(void)state;
	for (int i = 0; i < STEPS; i++)
		throttle_take(NULL, 1);
	assert_int_equal(sleeps(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sleeps_now_and_then),
	    cmocka_unit_test(test_nobody_waits),
	};

	return cmocka_run_group_tests_name("throttle", tests, NULL, NULL);
}
