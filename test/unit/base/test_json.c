/* Texts as JSON: escapes, invalid UTF-8, cuts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"

static void becomes(const char *text, size_t most, const char *wanted)
{
	struct buf b;

	buf_init(&b, 0);
	json_put_text(&b, text, most);
	assert_string_equal(buf_text(&b), wanted);
	buf_done(&b);
}

static void plain_and_escaped(void **state)
{
	(void)state;
	becomes("", 100, "\"\"");
	becomes("a b/c", 100, "\"a b/c\"");
	becomes("\"\\\n\r\t\x01\x1f\x7f", 100,
	    "\"\\\"\\\\\\n\\r\\t\\u0001\\u001f\\u007f\"");
}

static void utf8(void **state)
{
	(void)state;
	becomes("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 100,
	    "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
	/* characters that some readers take for line ends, and other control
	 * characters */
	becomes("\xc2\x85\xe2\x80\xa8\xe2\x80\xa9", 100, "\"\\u0085\\u2028\\u2029\"");
	/* U+FFFD in the text itself stays as it is */
	becomes("\xef\xbf\xbd", 100, "\"\xef\xbf\xbd\"");
}

static void no_utf8(void **state)
{
	static const char *const bad[] = {"\x80", "\xff", "\xc3", "\xc0\x80",
	    "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80",
	    "\xe0\x80\x80"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char wanted[64] = "\"";
		for (size_t n = 0; n < strlen(bad[i]); n++)
			strcat(wanted, "\\ufffd");
		strcat(wanted, "\"");
		becomes(bad[i], 100, wanted);
	}
	becomes("a\xc3(", 100, "\"a\\ufffd(\"");
}

static void cuts_are_between_characters(void **state)
{
	(void)state;
	becomes("abc", 2, "\"ab\"");
	becomes("abc", 3, "\"abc\"");
	becomes("a\xc3\xa4", 2, "\"a\"");
	becomes("a\nb", 2, "\"a\"");
	becomes("a\x01", 6, "\"a\"");
	becomes("a\x01", 7, "\"a\\u0001\"");
	becomes("abc", 0, "\"\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plain_and_escaped),
	    cmocka_unit_test(utf8),
	    cmocka_unit_test(no_utf8),
	    cmocka_unit_test(cuts_are_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
