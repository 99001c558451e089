/* The account of the process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/process.h"

static void unknown_user(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(process_switch_user("no such account", &err), -1);
	assert_string_equal(
	    err.text, "could not find user 'no such account' to switch to");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unknown_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
