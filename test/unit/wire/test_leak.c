/*
 * What texts and tags leave behind in a session.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/leak.h"

#define BIT         LEAK_BIT
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static struct leak_look look(const char *text)
{
	return leak_of_text(text, strlen(text) + 1, NULL);
}

struct sample {
	const char *text;
	unsigned first, all;
};

static void check(const struct sample *s)
{
	struct leak_look found = look(s->text);
	if (found.first != s->first || found.all != s->all)
		fail_msg("%s: %x %x, not %x %x", s->text, found.first, found.all,
		    s->first, s->all);
}

static void first_words(void **state)
{
	(void)state;
	static const struct sample samples[] = {
	    {"", 0, 0},
	    {"select 1", 0, 0},
	    {"SET work_mem = 1", BIT(SET), BIT(SET)},
	    {" \t\n-- c\n/* a /* b */ c */;; set\twork_mem to 1", BIT(SET), BIT(SET)},
	    {"set", BIT(SET), BIT(SET)},
	    {"settle", 0, 0},
	    {"sets", 0, 0},
	    {"set$", 0, 0},
	    {"set\xc3\xa9", 0, 0},
	    {"/* set", 0, 0},
	    {"-- set x to 1", 0, 0},
	    {"set session work_mem = 1", BIT(SET), BIT(SET)},
	    {"set session characteristics as transaction read only", BIT(SET),
		BIT(SET)},
	    {"set local work_mem = 1", 0, LEAK_HARMLESS_SET},
	    {"set transaction read only", 0, LEAK_HARMLESS_SET},
	    {"set constraints all deferred", 0, 0},
	    {"set work_mem to default", 0, LEAK_HARMLESS_SET},
	    {"set role x", BIT(ROLE), BIT(ROLE)},
	    {"set session role to x", BIT(ROLE), BIT(ROLE)},
	    {"set \"role\" = 'x'", BIT(ROLE), BIT(ROLE)},
	    {"set role none", 0, LEAK_HARMLESS_SET},
	    {"set local role x", 0, LEAK_HARMLESS_SET},
	    {"set session authorization x", BIT(AUTHORIZATION), BIT(AUTHORIZATION)},
	    {"set session_authorization = x", BIT(AUTHORIZATION), BIT(AUTHORIZATION)},
	    {"set session authorization default", 0, LEAK_HARMLESS_SET},
	    {"reset all", 0, 0},
	    {"listen x", BIT(LISTEN), BIT(LISTEN)},
	    {"unlisten *", 0, LEAK_UNLISTEN_ALL},
	    {"unlisten x", 0, 0},
	    {"load 'x'", BIT(LOAD), BIT(LOAD)},
	    {"prepare a as select 1", BIT(PREPARE), BIT(PREPARE)},
	    {"prepare transaction 'x'", 0, 0},
	    {"declare c cursor for select 1", 0, 0},
	    {"declare c binary cursor with hold for select 1", BIT(CURSOR),
		BIT(CURSOR)},
	    {"declare c cursor without hold for select 1", 0, 0},
	    {"declare c cursor for select with hold", 0, 0},
	    {"create table t (a int)", 0, 0},
	    {"create temp table t (a int)", BIT(TEMP), BIT(TEMP)},
	    {"create local temporary table t as select 1", BIT(TEMP), BIT(TEMP)},
	    {"create or replace temp view t as select 1", BIT(TEMP), BIT(TEMP)},
	    {"create temp table t (a int) on commit drop", 0, 0},
	    {"create temp table t (a int) on commit delete rows", BIT(TEMP), BIT(TEMP)},
	    {"create temp table t (a int); drop x on commit drop", BIT(TEMP),
		BIT(TEMP)},
	};
	for (size_t i = 0; i < COUNT_OF(samples); i++)
		check(&samples[i]);
}

static void statements_behind_the_first_are_expected_only(void **state)
{
	(void)state;
	static const struct sample samples[] = {
	    {"begin; set local a = 1; set role x; commit", 0,
		LEAK_HARMLESS_SET | BIT(ROLE)},
	    {"set a = 1; listen b;", BIT(SET), BIT(SET) | BIT(LISTEN)},
	    {"select 1;", 0, 0},
	    {";", 0, 0},
	};
	for (size_t i = 0; i < COUNT_OF(samples); i++)
		check(&samples[i]);
}

static void advisory_locks_of_the_session(void **state)
{
	(void)state;
	static const char *const leaving[] = {
	    "select pg_advisory_lock(1)",
	    "SELECT PG_CATALOG.PG_TRY_ADVISORY_LOCK (1, 2)",
	    "select pg_advisory_lock_shared(1)",
	    "select a_b, pg_try_advisory_lock_shared/* c */(1)",
	    "select 'it''s', \"a'b\", pg_advisory_lock(1)",
	    "select 'pg_advisory_lock(1)', pg_advisory_lock(1)",
	    "-- pg_advisory_lock(1)\nselect pg_advisory_lock(1)",
	};
	static const char *const harmless[] = {
	    "select pg_advisory_xact_lock(1)",
	    "select pg_try_advisory_xact_lock(1)",
	    "select pg_advisory_unlock(1)",
	    "select pg_advisory_unlock_all()",
	    "select my_pg_advisory_lock(1)",
	    "select x_advisory_lock(1)",
	    "select pg_advisory_lock",
	    "select pg_advisory_locks()",
	    "select 'pg_advisory_lock(1)'",
	    "select \"pg_advisory_lock(1)\"",
	    "select 1 -- pg_advisory_lock(1)",
	    "select 1 /* pg_advisory_lock(1) */",
	    "select _",
	    "select pg_advisory_loc",
	};
	for (size_t i = 0; i < COUNT_OF(leaving); i++)
		check(&(struct sample){leaving[i], BIT(ADVISORY), BIT(ADVISORY)});
	for (size_t i = 0; i < COUNT_OF(harmless); i++)
		check(&(struct sample){harmless[i], 0, 0});
}

/* Every beginning of a text can be what has come of it. */
static void configuration_of_the_session(void **state)
{
	(void)state;
	static const char *const leaving[] = {
	    "select set_config('work_mem', '1MB', false)",
	    "SELECT pg_catalog.Set_Config ('work_mem', f(1, '),'), FALSE)",
	    "select set_config($1, $2, $3)",
	    "select set_config('a', (select array[1,2]), /* c */ false)",
	    "select 1; select set_config('a', 'true', false)",
	    "select set_config(",
	    "select set_config('a",
	};
	static const char *const harmless[] = {
	    "select set_config('work_mem', '1MB', true)",
	    "select set_config('a', f('x', 2)\n, TRUE)",
	    "select reset_config('work_mem', '1MB', false)",
	    "select 'set_config(1, 2, false)'",
	    "select current_config('a')",
	    "select set_configs('a', 'b', false)",
	};
	for (size_t i = 0; i < COUNT_OF(leaving); i++)
		check(&(struct sample){leaving[i], BIT(CONFIG), BIT(CONFIG)});
	for (size_t i = 0; i < COUNT_OF(harmless); i++)
		check(&(struct sample){harmless[i], 0, 0});
}

static void select_into(void **state)
{
	(void)state;
	static const char *const leaving[] = {
	    "select 1 into temp t",
	    "SELECT * INTO TEMPORARY TABLE t FROM x",
	    "with a as (select 1) select * into local temp t from a",
	    "select 'into', 1 into temp t",
	};
	static const char *const harmless[] = {
	    "select 1 into t",
	    "insert into temp values (1)\n -- but that is a table of this name",
	    "select 'into temp t'",
	    "select 1 as pinto, temp from t",
	    "select pinto temp",
	};
	for (size_t i = 0; i < COUNT_OF(leaving); i++)
		check(&(struct sample){leaving[i], BIT(TEMP), BIT(TEMP)});
	for (size_t i = 0; i < COUNT_OF(harmless); i++)
		check(&(struct sample){harmless[i], 0, 0});
}

static void functions_called_by_number(void **state)
{
	(void)state;
	for (uint32_t oid = 2880; oid < 2890; oid++)
		assert_int_equal(leak_of_function(oid),
		    oid == 2884 || oid == 2885 ? 0 : BIT(ADVISORY));
	assert_int_equal(leak_of_function(2078), BIT(CONFIG));
	assert_int_equal(leak_of_function(0), 0);
	assert_int_equal(leak_of_function(2879), 0);
	assert_int_equal(leak_of_function(2890), 0);
	assert_int_equal(leak_of_function(UINT32_MAX), 0);
}

static void texts_may_end_anywhere(void **state)
{
	(void)state;
	static const char text[] =
	    "/* a */ -- b\n create temp table \"x\" (a int) on commit drop; set "
	    "session role to none; declare c cursor with hold for select "
	    "pg_advisory_lock_shared (1)";
	for (size_t len = 0; len < sizeof(text); len++) {
		char *copy = test_malloc(len + 1);
		memcpy(copy, text, len);
		leak_of_text(copy, len, NULL);
		test_free(copy);
	}
}

static void tracked_parameters_leave_nothing(void **state)
{
	(void)state;
	struct vars_schema *schema = vars_schema_new("search_path");
	struct vars vars;

	vars_init(&vars, schema);
	vars_set(&vars, VAR_TIMEZONE, "UTC");
	vars_set(&vars, VAR_CLIENT_ENCODING, "UTF8");
	static const char *const tracked[] = {"set timezone = 'x'", "set time zone 'x'",
	    "SET SESSION \"TimeZone\" TO 'x'", "set names 'x'"};
	static const char *const others[] = {"set work_mem = 1", "set schema 'x'",
	    "set search_path = x", "set timezones = 1"};
	for (size_t i = 0; i < COUNT_OF(tracked); i++)
		assert_int_equal(
		    leak_of_text(tracked[i], strlen(tracked[i]), &vars).all,
		    LEAK_HARMLESS_SET);
	for (size_t i = 0; i < COUNT_OF(others); i++)
		assert_int_equal(
		    leak_of_text(others[i], strlen(others[i]), &vars).all, BIT(SET));
	vars_set(&vars, (size_t)vars_schema_find(schema, "search_path"), "x");
	assert_int_equal(
	    leak_of_text("set schema 'x'", 14, &vars).all, LEAK_HARMLESS_SET);
	vars_done(&vars);
	vars_schema_free(&schema);
}

static unsigned cleared; /* by the last tag */

static unsigned tagged(struct leak_watch *watch, const char *tag)
{
	uint16_t gone;
	unsigned left = leak_of_tag(watch, tag, strlen(tag), &gone);
	cleared = gone;
	return left;
}

static unsigned alone(unsigned expected, const char *tag)
{
	struct leak_watch watch = {.expected = (uint16_t)expected};
	return tagged(&watch, tag);
}

static void tags(void **state)
{
	(void)state;
	assert_int_equal(alone(0, "SET"), BIT(SET));
	assert_int_equal(alone(LEAK_HARMLESS_SET, "SET"), 0);
	assert_int_equal(alone(BIT(ROLE), "SET"), BIT(ROLE));
	assert_int_equal(alone(BIT(ROLE), "SET CONSTRAINTS"), 0);
	assert_int_equal(alone(0, "LISTEN"), BIT(LISTEN));
	assert_int_equal(alone(0, "LOAD"), BIT(LOAD));
	assert_int_equal(alone(0, "PREPARE"), BIT(PREPARE));
	assert_int_equal(alone(0, "PREPARE TRANSACTION"), 0);
	assert_int_equal(alone(LEAK_HARMLESS_PREPARE, "PREPARE"), 0);
	assert_int_equal(alone(0, "DECLARE CURSOR"), 0);
	assert_int_equal(alone(BIT(CURSOR), "DECLARE CURSOR"), BIT(CURSOR));
	assert_int_equal(alone(0, "CREATE TABLE"), 0);
	assert_int_equal(alone(BIT(TEMP), "CREATE TABLE"), BIT(TEMP));
	assert_int_equal(alone(BIT(TEMP), "SELECT 3"), BIT(TEMP));
	assert_int_equal(alone(BIT(TEMP), "BEGIN"), 0);
	assert_int_equal(alone(BIT(ADVISORY), "SELECT 1"), BIT(ADVISORY));
	assert_int_equal(alone(0, "SELECT 1"), 0);
	alone(0, "DISCARD ALL");
	assert_int_equal(cleared, LEAK_KINDS);
	alone(0, "DISCARD TEMP");
	assert_int_equal(cleared, BIT(TEMP));
	alone(0, "DEALLOCATE ALL");
	assert_int_equal(cleared, BIT(PREPARE));
	alone(0, "DEALLOCATE");
	assert_int_equal(cleared, 0);
	alone(0, "CLOSE CURSOR ALL");
	assert_int_equal(cleared, BIT(CURSOR));
	alone(0, "UNLISTEN");
	assert_int_equal(cleared, 0);
	alone(LEAK_UNLISTEN_ALL, "UNLISTEN");
	assert_int_equal(cleared, BIT(LISTEN));
}

/* As many as there were, and no leaking one is taken for a harmless one. */
static void several_sets_in_a_row(void **state)
{
	(void)state;
	struct leak_watch watch = {.expected = BIT(SET) | BIT(ROLE)};
	assert_int_equal(tagged(&watch, "SET"), BIT(SET));
	assert_int_equal(tagged(&watch, "SET"), BIT(ROLE));
	watch = (struct leak_watch){.expected = BIT(SET) | LEAK_HARMLESS_SET};
	assert_int_equal(tagged(&watch, "SET"), BIT(SET));
	assert_int_equal(tagged(&watch, "SET"), 0);
	assert_int_equal(tagged(&watch, "SET"), BIT(SET));
	watch = (struct leak_watch){.expected = BIT(ADVISORY)};
	assert_int_equal(tagged(&watch, "SELECT 1"), BIT(ADVISORY));
	assert_int_equal(tagged(&watch, "SELECT 1"), 0);
}

static void tags_that_may_matter(void **state)
{
	(void)state;
	static const char *const matter[] = {"SET", "LISTEN", "LOAD", "PREPARE",
	    "DISCARD ALL", "DEALLOCATE ALL", "CLOSE CURSOR ALL"};
	static const char *const others[] = {
	    "SELECT 1", "INSERT 0 1", "UPDATE 1", "COMMIT", "COPY 1", "BEGIN"};
	for (size_t i = 0; i < COUNT_OF(matter); i++)
		assert_true(leak_may_matter(matter[i], strlen(matter[i])));
	for (size_t i = 0; i < COUNT_OF(others); i++)
		assert_false(leak_may_matter(others[i], strlen(others[i])));
	assert_string_equal(leak_name(LEAK_ROLE), "SET ROLE");
	for (int kind = 0; kind < LEAK_KIND_COUNT; kind++)
		assert_true(strlen(leak_hint((enum leak_kind)kind)) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(first_words),
	    cmocka_unit_test(statements_behind_the_first_are_expected_only),
	    cmocka_unit_test(advisory_locks_of_the_session),
	    cmocka_unit_test(configuration_of_the_session),
	    cmocka_unit_test(select_into),
	    cmocka_unit_test(functions_called_by_number),
	    cmocka_unit_test(texts_may_end_anywhere),
	    cmocka_unit_test(tracked_parameters_leave_nothing),
	    cmocka_unit_test(tags),
	    cmocka_unit_test(several_sets_in_a_row),
	    cmocka_unit_test(tags_that_may_matter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
