/*
 * Texts without their literals: what is left, and what is never left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/sql_scan.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

/* The buffer is as long as the header says, so that sanitizers see more. */
static void expect(const char *text, size_t len, bool has_escapes, const char *wanted)
{
	char *out = malloc(len + 1), *copy = malloc(len ? len : 1);

	memcpy(copy, text, len);
	sql_normalize(copy, len, has_escapes, out);
	assert_string_equal(out, wanted);
	free(copy);
	free(out);
}

static void literals_are_question_marks(void **state)
{
	static const struct {
		const char *text, *wanted;
	} cases[] = {
	    {"", ""},
	    {"select 1", "select ?"},
	    {"select 1.5e10, .5, 0x1F, 1_000", "select ?, .?, ?, ?"},
	    {"select -7+8", "select -?+?"},
	    {"  select\n\ta ,b  ", "select a ,b"},
	    {"select 'it''s', E'a\\'b', U&'\\0061', B'01', X'1F', n'x'",
		"select ?, ?, U&?, ?, ?, n?"},
	    {"do $$begin secret; end$$", "do ?"},
	    {"select $tag$ $$ secret $tag$, $1, a$1", "select ?, $1, a$1"},
	    {"select \"a 'name'\" /* 'x' /* nested */ */ -- y\n, t1.c2",
		"select \"a 'name'\" , t1.c2"},
	    {"create user u password 'secret'", "create user u password ?"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect(cases[i].text, strlen(cases[i].text), false, cases[i].wanted);
	expect("select 'a\\' secret'", 19, true, "select ?");
}

/* Wherever the text is cut, nothing of its literals is left. */
static void cut_texts_have_no_secrets(void **state)
{
	static const char text[] = "select 'secret', E'sec\\'ret', $q$secret$q$, "
				   "U&'secret', /* secret */ 'a' -- secret";

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		char *out = malloc(len + 1);
		sql_normalize(text, len, false, out);
		assert_null(strstr(out, "ecret"));
		assert_null(strstr(out, "ret'"));
		free(out);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(literals_are_question_marks),
	    cmocka_unit_test(cut_texts_have_no_secrets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
