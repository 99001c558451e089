/* SASLprep: examples of RFC 4013, normalization, and texts that stay as they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/saslprep.h"
#include "base/mem.h"

static void expect(const char *in, const char *wanted)
{
	char *out;

	assert_int_equal(saslprep(in, &out), 0);
	if (wanted)
		assert_non_null(out);
	else
		assert_null(out);
	if (out)
		assert_string_equal(out, wanted);
	mem_free(out);
}

static void test_ascii_is_unchanged(void **state)
{
	(void)state;
	expect("", "");
	expect("user", "user");
	expect("USER", "USER");
	expect(" a \"b\\ \x7f\x01 ", " a \"b\\ \x7f\x01 ");
}

static void test_mapping(void **state)
{
	(void)state;
	expect("I\u00ADX", "IX");
	expect("a\u00A0b\u3000c\u2003d", "a b c d");
	expect("a\u200Bb", "a b");
	expect("a\uFE0F\u2060b", "ab");
	expect("\u00AD", NULL);
}

static void test_normalization(void **state)
{
	(void)state;
	expect("\u00AA", "a");
	expect("\u2168", "IX");
	expect("e\u0301", "\u00E9");
	expect("\u00E9", "\u00E9");
	expect("\u212B\uFF21", "\u00C5A");
	expect("\u1E9B\u0323", "\u1E69");
	expect("\u3300", "\u30A2\u30D1\u30FC\u30C8");
	expect("\U0002F868", "\u36FC");
	expect("\U0001D400", "A");
	expect("\U0002F803", "\U00020122");
	/* This character is excluded from composition. */
	expect("\u0958", "\u0915\u093C");
	/* Marks are ordered by class; those of one class keep their order. */
	expect("a\u0315\u0300\u05AE\u0300\u0301b", "\u00E0\u05AE\u0300\u0301\u0315b");
	/* A mark of the same class in between prevents the composition. */
	expect("a\u0305\u0301", "a\u0305\u0301");
	expect("\u0301a", "\u0301a");
}

static void test_hangul(void **state)
{
	(void)state;
	expect("\u1100\u1161", "\uAC00");
	expect("\u1100\u1161\u11A8", "\uAC01");
	expect("\uAC00\u11A8", "\uAC01");
	expect("\uAC01\u11A8", "\uAC01\u11A8");
	expect("\uAC00\u11A7", NULL);
	expect("\uD7A3", "\uD7A3");
	expect("\uFFA1", "\u1100");
}

static void test_refused(void **state)
{
	static const char *const bad[] = {"\u00E9\x01", "\u00E9\x7f", "\xc2\x80",
	    "\u200E", "\uE000", "\U0010FFFD", "\uFFFD", "\u2028", "\uFDD0", "\u0340",
	    "\U000E0001", "\u0221", "x\u1D2Cb"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		expect(bad[i], NULL);
}

static void test_direction(void **state)
{
	(void)state;
	expect("\u05D0\u05D1", "\u05D0\u05D1");
	expect("\u06271\u0628", "\u06271\u0628");
	expect("\u06271", NULL);
	expect("1\u0627", NULL);
	expect("\u0627b\u0628", NULL);
	expect("\u0627\u0301", NULL);
}

static void test_not_utf8(void **state)
{
	static const char *const bad[] = {"\x80", "\xff", "caf\xe9", "\xc3", "\xe2\x82",
	    "\xf0\x9f\x98", "\xc0\xaf", "\xc1\x81", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",
	    "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "a\xc3(b"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		expect(bad[i], NULL);
}

/* A password of only marks, as long as the user list allows: no step is quadratic. */
static void test_long(void **state)
{
	size_t pairs = 65530 / 4;
	char *text = mem_alloc(pairs * 4 + 2), *out;

	(void)state;
	text[0] = 'a';
	for (size_t i = 0; i < pairs; i++)
		memcpy(text + 1 + 4 * i, "\u0315\u0316", 4);
	text[1 + pairs * 4] = '\0';
	assert_int_equal(saslprep(text, &out), 0);
	assert_non_null(out);
	assert_int_equal(strlen(out), 1 + pairs * 4);
	assert_memory_equal(out, "a\u0316\u0316", 5);
	assert_string_equal(out + pairs * 4 - 3, "\u0315\u0315");
	mem_free(out);
	mem_free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_ascii_is_unchanged),
	    cmocka_unit_test(test_mapping),
	    cmocka_unit_test(test_normalization),
	    cmocka_unit_test(test_hangul),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_direction),
	    cmocka_unit_test(test_not_utf8),
	    cmocka_unit_test(test_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
