/*
 * Lists of networks: which are read, which are refused, and which addresses are inside.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/networks.h"

/* cmocka needs the headers above. */
#include <cmocka.h>

static bool is_in(const char *list, const char *address)
{
	uint16_t family = strcmp(address, "unix") == 0 ? AF_UNIX
			  : strchr(address, ':')       ? AF_INET6
						       : AF_INET;
	uint8_t ip[16] = {0};

	if (family != AF_UNIX)
		assert_int_equal(inet_pton(family, address, ip), 1);
	return networks_have(list, family, ip);
}

static void test_who_is_inside(void **state)
{
	(void)state;
	assert_true(is_in("10.0.0.0/8", "10.255.0.1"));
	assert_false(is_in("10.0.0.0/8", "11.0.0.1"));
	assert_true(is_in("192.168.1.7", "192.168.1.7"));
	assert_false(is_in("192.168.1.7", "192.168.1.6"));
	assert_true(is_in("192.168.0.0/23", "192.168.1.255"));
	assert_false(is_in("192.168.0.0/23", "192.168.2.0"));
	assert_true(is_in("0.0.0.0/0", "8.8.8.8"));
	assert_false(is_in("0.0.0.0/0", "::1"));
	assert_true(is_in("1.2.3.4, ::1 , unix", "::1"));
	assert_true(is_in("1.2.3.4, ::1 , unix", "unix"));
	assert_false(is_in("1.2.3.4, ::1", "unix"));
	assert_true(is_in("2001:db8::/33", "2001:db8:7fff::1"));
	assert_false(is_in("2001:db8::/33", "2001:db8:8000::1"));
	/* a dual-stack listener reports IPv4 peers like this */
	assert_true(is_in("10.0.0.0/8", "::ffff:10.1.2.3"));
	assert_false(is_in("", "1.2.3.4"));
	assert_false(is_in(NULL, "1.2.3.4"));
}

static void test_what_is_refused(void **state)
{
	static const char *const bad[] = {"10.0.0.0/33", "::/129", "10.0.0/8", "host",
	    "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/08", "1.2.3.4/1/2", "all",
	    "1.2.3.4, x", "1.2.3.4 5.6.7.8",
	    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"};
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(networks_check(bad[i], &err), -1);
		assert_non_null(strstr(err.text, "is no network"));
	}
	assert_int_equal(networks_check("10.0.0.0/8,::1, unix,0.0.0.0/0", &err), 0);
	assert_int_equal(networks_check("", &err), 0);
	assert_int_equal(networks_check(NULL, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_who_is_inside),
	    cmocka_unit_test(test_what_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
