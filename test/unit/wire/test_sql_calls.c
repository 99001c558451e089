/*
 * Which texts may call a function of which only the server knows what it does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "wire/sql_calls.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

static bool may_be(const char *text)
{
	return sql_calls_may_be(text, strlen(text));
}

static void texts_without_calls(void **state)
{
	static const char *const texts[] = {"", "select 1", "(select 1)",
	    "select count(*), max ( a ) from t where b in (1, 2) and (c = 3)",
	    "insert into t (a, b) values (1, 2), (3, 4)",
	    "INSERT INTO \"public\".\"a t\" (\"a\") VALUES ($1) RETURNING (a)",
	    "insert into s.t(a) select (b) from (select 1) as x (b)",
	    "with x (a) as (select 1) select (a) from x",
	    "with recursive x(a) as materialized (select 1) table x",
	    "select a::numeric(10, 2), cast(b as varchar(5)) from t",
	    "select sum(a) over (order by b), count(*) filter (where c) from t",
	    "select pg_catalog.format_type(a, b), PG_CATALOG.COUNT(*) from t",
	    "select * from t where exists (select from u) or not (a) order by lower(b)",
	    "copy t (a, b) from stdin", "select array[(1)], row(1, 2), f from t",
	    "update t set (a, b) = (1, 2) where a = any (array(select 1))",
	    "select 'a' || (a), -1 * (2), $1 from t", "select 1&\"a\" from u",
	    "select u & \"a\", U&'f' from u"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (may_be(texts[i]))
			fail_msg("%s", texts[i]);
}

static void texts_that_may_call(void **state)
{
	static const char *const texts[] = {"select f()", "select f (1)", "call p()",
	    "select s.count(1)", "select \"count\"(1)", "select \"a \"\"b\"(1)",
	    "select count(f(1))", "select 1 where g\n(2)", "select f/* in */(1)",
	    "select f -- in\n (1)", "select f --\n(1)", "select count -- (\n(1)",
	    "select set_config('a', 'b', false)", "select pg_catalog.set_config('a')",
	    "select pg_advisory_lock(1)", "select \xc3\xa4(1)", "select a$(1)",
	    "select over(1), filter(2)", "select counts(1)", "select coun(1)",
	    "UPDATE pg_settings SET setting = 1",
	    "update pg_catalog.PG_Settings set a = 1", "insert into t values (f(1))",
	    "with x as (select f(1)) select 1", "select lo_import('/etc/passwd')",
	    "select dblink_connect('x')", "select U&\"f\"(1)",
	    "select u&\"f!0061\" UESCAPE '!' (1)",
	    "update U&\"pg\\005fsettings\" set setting = 1"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!may_be(texts[i]))
			fail_msg("%s", texts[i]);
}

/* The words count wherever they stand, in any case. */
static void sequences(void **state)
{
	static const char *const texts[] = {"select currval('s')", "LASTVAL",
	    "do 'begin perform pg_catalog.\"lastval\"(); end'", "select CurrVal ($1)"};
	static const char *const others[] = {
	    "", "select last_value from s", "select nextval('s')", "currva", "astval"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_true(sql_calls_read_sequences(texts[i], strlen(texts[i])));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(sql_calls_read_sequences(others[i], strlen(others[i])));
	assert_false(sql_calls_read_sequences("currval", 6));
}

/* Names of any length are read to their ends, and a NUL ends a text. */
static void ends(void **state)
{
	static char text[2000];

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text, "count", 5);
	text[sizeof(text) - 1] = '(';
	assert_true(sql_calls_may_be(text, sizeof(text)));
	assert_false(sql_calls_may_be(text, sizeof(text) - 1));
	text[100] = '\0';
	assert_false(sql_calls_may_be(text, sizeof(text)));
	memset(text, ' ', sizeof(text));
	text[0] = 'f';
	text[sizeof(text) - 1] = '(';
	assert_true(sql_calls_may_be(text, sizeof(text)));
	/* a line that is too long to be looked at may end with a comment */
	memset(text, 'b', sizeof(text));
	memcpy(text, "f --", 4);
	memcpy(text + sizeof(text) - 5, " in\n(", 5);
	assert_true(sql_calls_may_be(text, sizeof(text)));
	assert_true(sql_calls_may_be("\"(", 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(texts_without_calls),
	    cmocka_unit_test(texts_that_may_call),
	    cmocka_unit_test(ends),
	    cmocka_unit_test(sequences),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
