/* Base64: RFC 4648 vectors; every spelling but the canonical one is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/base64.h"

static const struct {
	const char *plain, *text;
} vectors[] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xfb\xff\xbf", "+/+/"},
};

static void test_vectors(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		size_t plain_len = strlen(vectors[i].plain), len;
		char text[32];
		uint8_t bytes[32];

		base64_encode((const uint8_t *)vectors[i].plain, plain_len, text);
		assert_string_equal(text, vectors[i].text);
		assert_int_equal(strlen(text), BASE64_LEN(plain_len));
		assert_int_equal(base64_decode(text, strlen(text), bytes, 32, &len), 0);
		assert_int_equal(len, plain_len);
		assert_memory_equal(bytes, vectors[i].plain, plain_len);
	}
}

static void test_refused(void **state)
{
	static const char *const bad[] = {"Z", "Zg", "Zg=", "====", "Z===", "Zg=a",
	    "=Zg=", "Zh==", "Zm9=", "Zm9v=", "Zm9v====", "Zg==Zg==", " Zm9v", "Zm9v ",
	    "Zm9v\n", "Zm9v\n\n\n\n", "Zm-_", "Zm9\x80", "Z m9", "Zg\xc3\xa9="};
	uint8_t bytes[32];
	size_t len;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(
		    base64_decode(bad[i], strlen(bad[i]), bytes, 32, &len), -1);
	assert_int_equal(base64_decode("Zm\0v", 4, bytes, 32, &len), -1);
}

static void test_room(void **state)
{
	uint8_t bytes[3] = {0, 0, 0xAA};
	size_t len;

	(void)state;
	assert_int_equal(base64_decode("Zm8=", 4, bytes, 2, &len), 0);
	assert_int_equal(len, 2);
	assert_int_equal(base64_decode("Zm9v", 4, bytes, 2, &len), -1);
	assert_int_equal(bytes[2], 0xAA);
}

static void test_every_byte(void **state)
{
	uint8_t in[256], out[256];
	char text[BASE64_LEN(256) + 1];
	size_t len;

	(void)state;
	for (int i = 0; i < 256; i++)
		in[i] = (uint8_t)i;
	for (size_t n = 0; n <= 256; n++) {
		base64_encode(in, n, text);
		assert_int_equal(base64_decode(text, strlen(text), out, n, &len), 0);
		assert_int_equal(len, n);
		assert_memory_equal(in, out, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_vectors),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_room),
	    cmocka_unit_test(test_every_byte),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
