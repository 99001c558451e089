/*
 * What several sites of one process come to know is told once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/workers.h"

static void is_told_by_one(void **state)
{
	(void)state;
	struct workers *workers = workers_new(2);
	struct site first = {.worker = &workers->members[0]};
	struct site second = {.worker = &workers->members[1]};

	assert_true(workers_log_once(&first, "zone", 2));
	assert_false(workers_log_once(&second, "zone", 2));
	/* It is news again for whoever tells it. */
	assert_true(workers_log_once(&first, "zone", 2));
	assert_true(workers_log_once(&second, "zone", 3));
	assert_false(workers_log_once(&first, "zone", 3));
	assert_true(workers_log_once(&second, "another zone", 2));
	workers_free(&workers);
}

static void tells_all_when_alone(void **state)
{
	(void)state;
	struct site site = {.worker = NULL};

	assert_true(workers_log_once(&site, "zone", 2));
	assert_true(workers_log_once(&site, "zone", 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(is_told_by_one),
	    cmocka_unit_test(tells_all_when_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
