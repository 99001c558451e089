/*
 * Sums and averages of counters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "pool/stats.h"

enum { COUNTERS = sizeof(struct stats) / sizeof(uint64_t) };

/* Counter i is base + i * step. */
static struct stats filled(uint64_t base, uint64_t step)
{
	uint64_t values[COUNTERS];
	struct stats s;

	for (size_t i = 0; i < COUNTERS; i++)
		values[i] = base + i * step;
	memcpy(&s, values, sizeof(s));
	return s;
}

static void sums(void **state)
{
	struct stats sum = filled(10, 1), more = filled(100, 7),
		     expected = filled(110, 8);

	(void)state;
	stats_add(&sum, &more);
	assert_memory_equal(&sum, &expected, sizeof(sum));
}

static void averages(void **state)
{
	struct stats before = filled(1000, 0), now = filled(1000, 0), average;

	(void)state;
	now.server_assignment_count += 7;
	now.xact_count += 25;
	now.query_count += 60;
	now.bytes_received += 1999;
	now.bytes_sent += 500;
	now.xact_time_us += 2599;
	now.query_time_us += 119;
	now.wait_time_us += 700;
	now.client_parse_count += 20;
	now.client_login_count += 4;
	stats_average(&now, &before, 2000000, &average);
	assert_int_equal(average.server_assignment_count, 3);
	assert_int_equal(average.xact_count, 12);
	assert_int_equal(average.query_count, 30);
	assert_int_equal(average.bytes_received, 999);
	assert_int_equal(average.bytes_sent, 250);
	assert_int_equal(average.xact_time_us, 103);
	assert_int_equal(average.query_time_us, 1);
	assert_int_equal(average.wait_time_us, 100);
	assert_int_equal(average.client_parse_count, 10);
	assert_int_equal(average.server_parse_count, 0);
	assert_int_equal(average.bind_count, 0);
	assert_int_equal(average.client_login_count, 2);
}

/* No time has passed, a pool was freed, and bytes times a million exceed 64 bits. */
static void averages_of_odd_input(void **state)
{
	struct stats before = filled(1000, 0), now = filled(10, 0), zero = filled(0, 0);
	struct stats average;

	(void)state;
	stats_average(&now, &before, 1000000, &average);
	assert_memory_equal(&average, &zero, sizeof(zero));
	now = filled(5000, 0);
	stats_average(&now, &before, 0, &average);
	assert_int_equal(average.query_count, 0);
	before = zero;
	now = zero;
	now.bytes_sent = UINT64_MAX;
	stats_average(&now, &before, 1000000, &average);
	assert_true(average.bytes_sent == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sums),
	    cmocka_unit_test(averages),
	    cmocka_unit_test(averages_of_odd_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
