/* Commands of settings: how they are cut into words, and which are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/command_line.h"

static void cuts(const char *text, const char *const *words)
{
	struct err err;
	char **cut = command_line_words(text, &err);
	size_t i = 0;

	assert_non_null(cut);
	for (; words[i]; i++)
		assert_string_equal(cut[i], words[i]);
	assert_null(cut[i]);
	command_line_free(&cut);
	assert_null(cut);
	assert_int_equal(command_line_check(text, &err), 0);
}

static void words(void **state)
{
	(void)state;
	cuts("/a", (const char *const[]){"/a", NULL});
	cuts(" /a\tb  c ", (const char *const[]){"/a", "b", "c", NULL});
	cuts("/a 'b c' --d=\"e f\" ''",
	    (const char *const[]){"/a", "b c", "--d=e f", "", NULL});
	cuts("'/a b' 'it''s' \"it's\"",
	    (const char *const[]){"/a b", "it's", "it's", NULL});
	cuts("/a b'c d'e", (const char *const[]){"/a", "bc de", NULL});
	cuts("/a $HOME *;|&>b \\n",
	    (const char *const[]){"/a", "$HOME", "*;|&>b", "\\n", NULL});
}

static void refuses(const char *text, const char *says)
{
	struct err err;

	assert_int_equal(command_line_check(text, &err), -1);
	assert_non_null(strstr(err.text, says));
	assert_null(command_line_words(text, NULL));
}

static void refused(void **state)
{
	(void)state;
	refuses("", "absolute path");
	refuses(" ", "absolute path");
	refuses("a", "absolute path");
	refuses("./a /b", "absolute path");
	refuses("'' /b", "absolute path");
	refuses("/a 'b", "not closed");
	refuses("/a b\"c", "not closed");
	/* a shell would make one word of these */
	refuses("'/a b'/c", "behind its closing quote");
	refuses("/a 'b'\"c\"", "behind its closing quote");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(words),
	    cmocka_unit_test(refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
