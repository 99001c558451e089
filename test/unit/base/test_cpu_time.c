/*
 * The time in which a thread has something to do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cpu_time.h"

static uint64_t clock_us(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void work(uint64_t us)
{
	uint64_t end_us = clock_us(CLOCK_THREAD_CPUTIME_ID) + us;

	while (clock_us(CLOCK_THREAD_CPUTIME_ID) < end_us)
		;
}

static void check_work(struct cpu_time *t)
{
	uint64_t wall_us = clock_us(CLOCK_MONOTONIC);
	uint64_t before_us = cpu_time_busy_us(t);

	work(30000);
	uint64_t busy_us = cpu_time_busy_us(t) - before_us;
	assert_true(busy_us >= 30000);
	/* The kernel counts a wait when it ends. */
	assert_true(busy_us <= clock_us(CLOCK_MONOTONIC) - wall_us + 1000);
}

static void test_work_counts(void **state)
{
	struct cpu_time t;

	(void)state;
	cpu_time_open(&t);
	check_work(&t);
	cpu_time_close(&t);
}

static void test_sleep_does_not_count(void **state)
{
	struct cpu_time t;

	(void)state;
	cpu_time_open(&t);
	uint64_t wall_us = clock_us(CLOCK_MONOTONIC);
	uint64_t before_us = cpu_time_busy_us(&t);
	usleep(50000);
	uint64_t busy_us = cpu_time_busy_us(&t) - before_us;
	assert_true(busy_us + 49000 <= clock_us(CLOCK_MONOTONIC) - wall_us);
	cpu_time_close(&t);
}

/* Waits that were known are kept, so that no difference is wrong. */
static void test_without_the_file(void **state)
{
	struct cpu_time t;

	(void)state;
	cpu_time_open(&t);
	(void)cpu_time_busy_us(&t);
	uint64_t waited_us = t.waited_us;
	cpu_time_close(&t);
	assert_int_equal(t.fd, -1);
	check_work(&t);
	assert_true(t.waited_us == waited_us);
}

static void test_without_a_descriptor(void **state)
{
	struct rlimit before, none;
	struct cpu_time t;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	cpu_time_open(&t);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(t.fd, -1);
	check_work(&t);
	cpu_time_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_work_counts),
	    cmocka_unit_test(test_sleep_does_not_count),
	    cmocka_unit_test(test_without_the_file),
	    cmocka_unit_test(test_without_a_descriptor),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
