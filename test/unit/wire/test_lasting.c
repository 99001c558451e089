/*
 * Of which texts Parse makes the same statement each time.
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

#include "wire/text_counts.h"

#define TEN   "abcdefghij"
#define SIXTY TEN TEN TEN TEN TEN TEN

/* The copy has the exact size, so that sanitizers see a read past its end. */
static bool is_lasting(const char *text)
{
	size_t len = strlen(text);
	char *copy = malloc(len + 1);
	bool result;

	assert_non_null(copy);
	memcpy(copy, text, len);
	result = text_counts_is_lasting(copy, len);
	free(copy);
	return result;
}

static void these_are(void **state)
{
	static const char *const texts[] = {
	    "select 1",
	    " /* c */ SELECT v FROM t WHERE id = $1;",
	    "insert into t values ($1, 'it''s 5')",
	    "INSERT INTO t SELECT * FROM s",
	    "update t set v = 'knowing' where w = 'x'",
	    "delete from t",
	    "merge into t using s on t.id = s.id when matched then delete",
	    "with x as (insert into t values (1) returning id) select * from x",
	    "values (1)",
	    "table t",
	    "select now(), current_date, today, 'thing'::regclass",
	    "select $$it's$$, \"quoted name\"",
	    "select set_config('app.tenant', $1, true)",
	    "select " SIXTY "abc from t",
	    "select region, registered from t",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!is_lasting(texts[i]))
			fail_msg("%s: it is lasting", texts[i]);
}

static void these_are_not(void **state)
{
	static const char *const texts[] = {
	    "",
	    "-- nothing",
	    ";",
	    "begin",
	    "show work_mem",
	    "explain select 1",
	    "set work_mem = '1MB'",
	    "copy t to stdout",
	    "(select 1)",
	    "create table t ()",
	    "select 'now'::timestamptz",
	    "select date 'Tomorrow'",
	    "select * from t where d > 'yesterday 10:00'",
	    "insert into t values ('today')",
	    "select E'n\\x6fw'::timestamptz",
	    "select 'a\\b'",
	    "select U&'\\006eow'",
	    "select 'no'\n'w'::timestamptz",
	    "select 'f'::regproc, 1",
	    "select 'f(int)'::RegProcedure",
	    "select 'r'::\"regrole\"",
	    "select * into t from s",
	    "with x as (select 1) select * into temp t from x",
	    "select 1 as " SIXTY "abcd",
	    "select 1 as \"" SIXTY "abcd\"",
	    "select 1 as "
	    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4",
	    "select set_config('search_path', $1, true)",
	    "select set_config($1, $2, false)",
	    "select pg_advisory_lock(1)",
	    "select 1; set search_path = x",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (is_lasting(texts[i]))
			fail_msg("%s: it is not lasting", texts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(these_are),
	    cmocka_unit_test(these_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
