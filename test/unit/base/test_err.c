/*
 * struct err: filling, cutting, prefixing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/err.h"

static void set_fills_text_and_code(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(err_set(&e, "bad %s %d", "thing", 7), -1);
	assert_string_equal(e.text, "bad thing 7");
	assert_string_equal(e.sqlstate, "08P01");
	assert_int_equal(err_set_row(&e, ERROR_NO_THREAD, "none left"), -1);
	assert_string_equal(e.text, "could not start a thread: none left");
	assert_string_equal(e.sqlstate, "53000");
}

static void no_error_wanted(void **state)
{
	(void)state;
	assert_int_equal(err_set(NULL, "x"), -1);
	assert_int_equal(err_set_row(NULL, ERROR_OUT_OF_MEMORY), -1);
	assert_int_equal(err_prefix(NULL, "x"), -1);
}

static void arguments_may_be_the_old_content(void **state)
{
	struct err e;

	(void)state;
	err_set(&e, "inner");
	err_set(&e, "outer: %s", e.text);
	assert_string_equal(e.text, "outer: inner");
	err_set_row(&e, ERROR_NO_THREAD, e.text);
	assert_string_equal(e.text, "could not start a thread: outer: inner");
	err_set(&e, "more %s %s", e.text, e.sqlstate);
	assert_string_equal(
	    e.text, "more could not start a thread: outer: inner 53000");
	assert_string_equal(e.sqlstate, "08P01");
}

static void prefix_keeps_code(void **state)
{
	struct err e;

	(void)state;
	err_set_row(&e, ERROR_NO_THREAD, "no");
	assert_int_equal(err_prefix(&e, "%s:%d: ", "file", 3), -1);
	assert_string_equal(e.text, "file:3: could not start a thread: no");
	assert_string_equal(e.sqlstate, "53000");
}

static void long_text_is_cut_between_characters(void **state)
{
	char big[2 * sizeof(struct err)];
	struct err e;
	const size_t room = sizeof(e.text);

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	err_set(&e, "%s", big);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
	err_prefix(&e, "front ");
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
	assert_memory_equal(e.text, "front xxx", 9);
	err_prefix(&e, "%s", big);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);

	/* a euro sign (3 bytes) that would end where the closing NUL belongs is dropped
	 * whole */
	memcpy(big + room - 3, "\xe2\x82\xac", 3);
	err_set(&e, "%s", big);
	assert_int_equal(strlen(e.text), room - 3);
	/* a euro sign that just fits stays */
	memset(big + room - 3, 'x', 3);
	memcpy(big + room - 4, "\xe2\x82\xac", 3);
	err_set(&e, "%s", big);
	assert_int_equal(strlen(e.text), room - 1);
	/* bytes that are not UTF-8 are cut at the end of the buffer */
	memset(big, 0x80, sizeof(big) - 1);
	err_set(&e, "%s", big);
	assert_int_equal(strlen(e.text), room - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(set_fills_text_and_code),
	    cmocka_unit_test(no_error_wanted),
	    cmocka_unit_test(arguments_may_be_the_old_content),
	    cmocka_unit_test(prefix_keeps_code),
	    cmocka_unit_test(long_text_is_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
