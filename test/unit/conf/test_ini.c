/* The ini grammar, item by item. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conf/ini.h"

/* Expects the next item; a NULL text is not compared. */
static void expect(struct ini *ini, enum ini_kind kind, unsigned line, const char *name,
    const char *value)
{
	struct ini_item item;

	assert_int_equal(ini_next(ini, &item), kind);
	assert_int_equal(item.line, line);
	if (name)
		assert_string_equal(item.name, name);
	if (value)
		assert_string_equal(item.value, value);
}

#define OPEN(ini, literal)      \
	char text_[] = literal; \
	struct ini ini;         \
	ini_init(&ini, text_, sizeof(text_) - 1)

static void sections_and_values(void **state)
{
	(void)state;
	OPEN(ini, "\r\n# remark\n  ; another = x\n[pgbouncer]\n"
		  "a=1\n\t b.c-d_*9 \t=\t two words ; not a comment \t\r\nempty =\n");

	expect(&ini, INI_SECTION, 4, "pgbouncer", NULL);
	expect(&ini, INI_VALUE, 5, "a", "1");
	expect(&ini, INI_VALUE, 6, "b.c-d_*9", "two words ; not a comment");
	expect(&ini, INI_VALUE, 7, "empty", "");
	expect(&ini, INI_END, 8, NULL, NULL);
	expect(&ini, INI_END, 8, NULL, NULL);
}

static void empty_value_does_not_take_the_next_line(void **state)
{
	(void)state;
	OPEN(ini, "a =\nb = 2");

	expect(&ini, INI_VALUE, 1, "a", "");
	expect(&ini, INI_VALUE, 2, "b", "2");
	expect(&ini, INI_END, 2, NULL, NULL);
}

static void quoted_keys(void **state)
{
	(void)state;
	OPEN(ini, "'my db;]=\"x' = v\n'two\nlines'=w\nnext=1\n");

	expect(&ini, INI_VALUE, 1, "my db;]=\"x", "v");
	expect(&ini, INI_VALUE, 2, "two\nlines", "w");
	expect(&ini, INI_VALUE, 4, "next", "1");
}

static void an_item_may_follow_a_section_on_its_line(void **state)
{
	(void)state;
	OPEN(ini, "[a b ] x=1\n[]y=2");

	expect(&ini, INI_SECTION, 1, "a b ", NULL);
	expect(&ini, INI_VALUE, 1, "x", "1");
	expect(&ini, INI_SECTION, 2, "", NULL);
	expect(&ini, INI_VALUE, 2, "y", "2");
}

static void includes(void **state)
{
	(void)state;
	OPEN(ini, "%include  a file.ini \t\n %include\tb\n%include\nx=1\n%includeb\n"
		  "%include  \n%other\n");

	expect(&ini, INI_INCLUDE, 1, NULL, "a file.ini");
	expect(&ini, INI_INCLUDE, 2, NULL, "b");
	expect(&ini, INI_BAD, 3, NULL, NULL);
	expect(&ini, INI_VALUE, 4, "x", "1");
	expect(&ini, INI_BAD, 5, NULL, NULL);
	expect(&ini, INI_BAD, 6, NULL, NULL);
	expect(&ini, INI_BAD, 7, NULL, NULL);
	expect(&ini, INI_END, 8, NULL, NULL);
}

static void syntax_errors_end_with_their_line(void **state)
{
	(void)state;
	OPEN(ini,
	    "[open\n\"dq\" = 1\n'' = 1\nkey\nkey value\n= 3\nkey\n= 4\n'open = 1\n"
	    "last = 1");

	for (unsigned line = 1; line <= 9; line++)
		expect(&ini, INI_BAD, line, "", "");
	expect(&ini, INI_VALUE, 10, "last", "1");
	expect(&ini, INI_END, 10, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sections_and_values),
	    cmocka_unit_test(empty_value_does_not_take_the_next_line),
	    cmocka_unit_test(quoted_keys),
	    cmocka_unit_test(an_item_may_follow_a_section_on_its_line),
	    cmocka_unit_test(includes),
	    cmocka_unit_test(syntax_errors_end_with_their_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
