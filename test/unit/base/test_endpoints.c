/*
 * Lists of addresses to listen on: which items are accepted, and the errors of the
 * others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/endpoints.h"

static void test_items(void **state)
{
	const char *list = " 127.0.0.1:9127, [::1]:1,*:65535 ,unix:/run/m.sock";
	struct endpoint e;
	struct err err;

	(void)state;
	assert_int_equal(endpoints_check(list, &err), 0);
	assert_int_equal(endpoints_count(list), 4);
	assert_int_equal(endpoints_next(&list, &e, &err), 1);
	assert_string_equal(e.host, "127.0.0.1");
	assert_int_equal(e.port, 9127);
	assert_int_equal(endpoints_next(&list, &e, &err), 1);
	assert_string_equal(e.host, "::1");
	assert_int_equal(endpoints_next(&list, &e, &err), 1);
	assert_string_equal(e.text, "*:65535");
	assert_int_equal(endpoints_next(&list, &e, &err), 1);
	assert_string_equal(e.path, "/run/m.sock");
	assert_int_equal(e.port, 0);
	assert_int_equal(endpoints_next(&list, &e, &err), 0);
}

static void test_empty(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(endpoints_check(NULL, &err), 0);
	assert_int_equal(endpoints_check(" , ", &err), 0);
	assert_int_equal(endpoints_count(""), 0);
}

static void refuse(const char *list, const char *says)
{
	struct err err;

	assert_int_equal(endpoints_check(list, &err), -1);
	assert_non_null(strstr(err.text, says));
}

static void test_refused(void **state)
{
	char text[400];

	(void)state;
	refuse("9127", "\"9127\" has no port");
	refuse(":9127", "has no address");
	refuse("a:", "has no port between 1 and 65535");
	refuse("a:0", "has no port between 1 and 65535");
	refuse("a:65536", "has no port between 1 and 65535");
	refuse("a:0x10", "has no port between 1 and 65535");
	refuse("a:99999999999999999999", "has no port between 1 and 65535");
	refuse("::1:9127", "without brackets");
	refuse("[::1:9127", "has no closing bracket");
	refuse("[::1]", "has no port; ");
	refuse("a:1 b:2", "is no address with a port");
	refuse("http://a:1", "is no address with a port");
	refuse("a:1, unix:m", "\"unix:m\" has no absolute path");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	refuse(text, "longer than 255 bytes");
	memcpy(text, "unix:/", 6);
	text[150] = '\0';
	refuse(text, "longer than 107 bytes");
	refuse("a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1",
	    "more than 16");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_items),
	    cmocka_unit_test(test_empty),
	    cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
