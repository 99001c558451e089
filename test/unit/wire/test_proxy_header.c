/*
 * Headers of the PROXY protocol: both versions, cut at every byte, and broken.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/proxy_header.h"

/* cmocka needs the headers above. */
#include <cmocka.h>

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

static enum proxy_header_result read_text(const char *text, struct proxy_header *h)
{
	return proxy_header_read((const uint8_t *)text, strlen(text), h);
}

static void assert_address(
    const struct proxy_header *h, int family, const char *ip, uint16_t port)
{
	char text[INET6_ADDRSTRLEN];

	assert_int_equal(h->family, family);
	assert_string_equal(inet_ntop(family, h->ip, text, sizeof(text)), ip);
	assert_int_equal(h->port, port);
}

/* No shorter part of the header is enough, and none is an error. */
static void assert_cut_anywhere(const void *bytes, size_t size)
{
	struct proxy_header h;

	for (size_t len = 1; len < size; len++)
		assert_int_equal(
		    proxy_header_read(bytes, len, &h), PROXY_HEADER_PARTIAL);
	assert_int_equal(proxy_header_read(bytes, size, &h), PROXY_HEADER_WHOLE);
	assert_int_equal(h.size, size);
}

static void test_version_1(void **state)
{
	static const char v4[] = "PROXY TCP4 192.0.2.1 198.51.100.2 56324 6432\r\n";
	static const char v6[] = "PROXY TCP6 2001:db8::1 ::1 65535 0\r\nrest";
	struct proxy_header h;

	(void)state;
	assert_cut_anywhere(v4, strlen(v4));
	assert_int_equal(read_text(v4, &h), PROXY_HEADER_WHOLE);
	assert_address(&h, AF_INET, "192.0.2.1", 56324);
	assert_int_equal(read_text(v6, &h), PROXY_HEADER_WHOLE);
	assert_int_equal(h.size, strlen(v6) - 4);
	assert_address(&h, AF_INET6, "2001:db8::1", 65535);
	assert_int_equal(read_text("PROXY UNKNOWN\r\n", &h), PROXY_HEADER_WHOLE);
	assert_int_equal(h.family, AF_UNSPEC);
	assert_int_equal(
	    read_text("PROXY UNKNOWN ffff:f 1 whatever\r\n", &h), PROXY_HEADER_WHOLE);
}

static void test_version_1_broken(void **state)
{
	static const char *const bad[] = {"PROXY \r\n", "PROXY TCP4\r\n",
	    "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
	    "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
	    "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
	    "PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
	    "PROXY TCP4 1.2.3.4 1.2.3.4 1x 2\r\n",
	    "PROXY TCP4 1.2.3.4 1.2.3.4 1 -2\r\n", "PROXY TCP4 1.2.3.4 ::1 1 2\r\n",
	    "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n", "PROXY TCP4 ::1 ::1 1 2\r\n",
	    "PROXY TCP6 1.2.3.4 ::1 1 2\r\n", "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
	    "PROXY TCP4  1.2.3.4 1 2\r\n", "PROXY TCP4 1.2.3.4  1 2\r\n",
	    "PROXY TCP4 1.2.3.4 1.2.3.4  2\r\n", "PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n",
	    "PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n", "proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
	    "GET / HTTP/1.0\r\n"};
	struct proxy_header h;
	char endless[200];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(read_text(bad[i], &h), PROXY_HEADER_BROKEN);
	memset(endless, 'x', sizeof(endless));
	memcpy(endless, "PROXY ", 6);
	assert_int_equal(
	    proxy_header_read((const uint8_t *)endless, 106, &h), PROXY_HEADER_PARTIAL);
	assert_int_equal(
	    proxy_header_read((const uint8_t *)endless, 107, &h), PROXY_HEADER_BROKEN);
}

static void test_version_2(void **state)
{
	static const char v4[] = SIGNATURE "\x21\x11\0\x0c"
					   "\xc0\0\2\1\xc6\x33\x64\2\xdc\4\x19\x20";
	static const char v6[] = SIGNATURE "\x21\x21\0\x27"
					   "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1"
					   "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\2"
					   "\0\7\0\x8\4\0\0";
	static const char local[] = SIGNATURE "\x20\0\0\0";
	static const char unix_peer[] = SIGNATURE "\x21\x31\0\1x";
	struct proxy_header h;

	(void)state;
	assert_cut_anywhere(v4, sizeof(v4) - 1);
	proxy_header_read((const uint8_t *)v4, sizeof(v4) - 1, &h);
	assert_address(&h, AF_INET, "192.0.2.1", 56324);
	assert_cut_anywhere(v6, sizeof(v6) - 1);
	proxy_header_read((const uint8_t *)v6, sizeof(v6) - 1, &h);
	assert_address(&h, AF_INET6, "2001:db8::1", 7);
	assert_cut_anywhere(local, sizeof(local) - 1);
	proxy_header_read((const uint8_t *)local, sizeof(local) - 1, &h);
	assert_int_equal(h.family, AF_UNSPEC);
	assert_cut_anywhere(unix_peer, sizeof(unix_peer) - 1);
	proxy_header_read((const uint8_t *)unix_peer, sizeof(unix_peer) - 1, &h);
	assert_int_equal(h.family, AF_UNSPEC);
}

static void test_version_2_broken(void **state)
{
	static const char version[] = SIGNATURE "\x31\x11\0\x0c";
	static const char command[] = SIGNATURE "\x22\x11\0\x0c";
	static const char huge[] = SIGNATURE "\x21\x11\xff\xff";
	static const char too_short[] = SIGNATURE "\x21\x11\0\x0b"
						  "12341234121";
	static const char signature[] = "\r\n\r\n\0\r\nQUIS";
	struct proxy_header h;

	(void)state;
#define assert_broken(bytes)                                                    \
	assert_int_equal(                                                       \
	    proxy_header_read((const uint8_t *)(bytes), sizeof(bytes) - 1, &h), \
	    PROXY_HEADER_BROKEN)
	assert_broken(version);
	assert_broken(command);
	assert_broken(huge);
	assert_broken(too_short);
	assert_broken(signature);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_version_1),
	    cmocka_unit_test(test_version_1_broken),
	    cmocka_unit_test(test_version_2),
	    cmocka_unit_test(test_version_2_broken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
