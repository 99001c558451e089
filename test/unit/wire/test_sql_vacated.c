/*
 * Which database has to be without other connections for a text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "wire/effects.h"
#include "wire/sql_vacated.h"

static struct sql_effects effects_of(const char *text)
{
	return effects_of_text(text, strlen(text), &(struct effects_ask){0});
}

/* name NULL: none. */
static void assert_vacates(const char *text, const char *name)
{
	/* the exact size, so that sanitizers see a read past its end */
	size_t len = strlen(text);
	char *copy = malloc(len ? len : 1);
	struct buf out;

	assert_non_null(copy);
	memcpy(copy, text, len);
	buf_init(&out, 0);
	assert_true(effects_of(text).vacates);
	assert_int_equal(sql_vacated(copy, len, false, &out), name != NULL);
	if (name) {
		assert_int_equal(out.len, strlen(name) + 1);
		assert_string_equal((const char *)out.bytes, name);
	}
	buf_done(&out);
	free(copy);
}

static void these_name_one(void **state)
{
	(void)state;
	assert_vacates("drop database shop", "shop");
	assert_vacates(";; /* a */ DROP -- b\n DATABASE If Exists SHOP;", "shop");
	assert_vacates("drop database \"Shop \"\"1\"\"\" with (force)", "Shop \"1\"");
	assert_vacates("alter database shop rename to other", "shop");
	assert_vacates("create database other template shop", "shop");
	assert_vacates(
	    "create database \"template\" with owner a TEMPLATE = \"Shop\"", "Shop");
	assert_vacates("create database other template 'Shop'", "Shop");
	/* without a name it is the usual one that is copied */
	assert_vacates("create database other", "template1");
	assert_vacates("create database other template default", "template1");
	assert_vacates("create database other; select 1 as template", "template1");
}

static void names_are_cut_as_postgresql_does(void **state)
{
#define TEN   "1234567890"
#define SIXTY TEN TEN TEN TEN TEN TEN
	(void)state;
	assert_vacates("drop database a" SIXTY TEN, "a" SIXTY "12");
	assert_vacates("drop database a" SIXTY "1\xc3\xa4", "a" SIXTY "1");
}

static void these_name_none(void **state)
{
	(void)state;
	assert_vacates("drop database", NULL);
	assert_vacates("drop database if exists", NULL);
	assert_vacates("alter database 7", NULL);
	/* a name that no database has */
	assert_vacates("drop database U&\"shop\"", "\001");
}

static void others_vacate_none(void **state)
{
	static const char *const texts[] = {"select 'drop database a'",
	    "drop table database", "select 1; drop database a",
	    "do $$ begin drop database a; end $$", "create table a (database int)",
	    "comment on database a is ''"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (effects_of(texts[i]).vacates)
			fail_msg("%s", texts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(these_name_one),
	    cmocka_unit_test(names_are_cut_as_postgresql_does),
	    cmocka_unit_test(these_name_none),
	    cmocka_unit_test(others_vacate_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
