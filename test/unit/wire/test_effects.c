/*
 * Effects of query texts: session state left behind, parameters reset, commands about
 * prepared statements.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/effects.h"
#include "wire/prepared_sql.h"

#define BIT           LEAK_BIT
#define VAR_BIT(name) (UINT64_C(1) << VAR_##name)
#define COUNT_OF(a)   (sizeof(a) / sizeof((a)[0]))

/* ---- state left behind ---- */

static struct sql_effects effects(const char *text)
{
	const struct effects_ask ask = {.has_leaves = true};
	struct sql_effects found = effects_of_text(text, strlen(text) + 1, &ask);

	if (effects_is_plain(text, strlen(text) + 1, &ask) &&
	    !effects_is_nothing(&found))
		fail_msg("%s: it is not plain", text);
	return found;
}

static void most_texts_are_plain(void **state)
{
	(void)state;
	static const char *const plain[] = {"select 1", " select 1;\n",
	    "/* c */ UPDATE t SET a = 'listen' WHERE b = $1",
	    "with x as (select 1) select * from x"};
	static const char *const others[] = {"", "set a = 1", "select 1; select 2",
	    "select set_config('a', 'b', false)", "(select 1)",
	    "select pg_advisory_lock(1)", "discard all", "prepare x as select 1"};
	const struct effects_ask ask = {.has_leaves = true};
	static char text[EFFECTS_TEXT_MAX + 2] = "select ";

	for (size_t i = 0; i < COUNT_OF(plain); i++)
		if (!effects_is_plain(plain[i], strlen(plain[i]) + 1, &ask))
			fail_msg("%s: it is plain", plain[i]);
	for (size_t i = 0; i < COUNT_OF(others); i++)
		if (effects_is_plain(others[i], strlen(others[i]) + 1, &ask))
			fail_msg("%s: it is not plain", others[i]);
	/* what lies behind what is looked at is not known */
	memset(text + 7, 'x', sizeof(text) - 8);
	assert_true(effects_is_plain(text, EFFECTS_TEXT_MAX, &ask));
	assert_false(effects_is_plain(text, sizeof(text), &ask));
}

static struct leak_look look(const char *text)
{
	struct sql_effects found = effects(text);

	return effects_leaves(&found, NULL);
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

/* The function must accept every prefix of a text, because more may not have
 * arrived. */
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
	/* of these it is not known whether PostgreSQL has defined the parameter */
	static const size_t unknown[] = {2, 5, 6};
	for (size_t i = 0, k = 0; i < COUNT_OF(leaving); i++) {
		bool is_unknown = k < COUNT_OF(unknown) && unknown[k] == i;
		k += is_unknown;
		check(&(struct sample){leaving[i], BIT(CONFIG),
		    BIT(CONFIG) | (is_unknown ? LEAK_PLACEHOLDER : 0)});
	}
	for (size_t i = 0; i < COUNT_OF(harmless); i++)
		check(&(struct sample){harmless[i], 0, 0});
}

/* Names with a dot, which PostgreSQL may not have defined. */
static void placeholders(void **state)
{
	(void)state;
	static const struct sample samples[] = {
	    {"set app.user_id = 1", BIT(SET), BIT(SET) | LEAK_PLACEHOLDER},
	    {"set \"app\" . x to '1.5'", BIT(SET), BIT(SET) | LEAK_PLACEHOLDER},
	    {"set U&\"app\\002ex\" to 1", BIT(SET), BIT(SET) | LEAK_PLACEHOLDER},
	    {"set work_mem to '1.5'", BIT(SET), BIT(SET)},
	    {"set local app.user_id = 1", 0, LEAK_HARMLESS_SET},
	    {"set app.user_id to default", 0, LEAK_HARMLESS_SET},
	    {"select set_config('app.x', 'y', false)", BIT(CONFIG),
		BIT(CONFIG) | LEAK_PLACEHOLDER},
	    {"select set_config('app.x', 'y', true)", 0, 0},
	    {"do $$ begin set app.x = 1; end $$", 0, LEAK_PLACEHOLDER},
	};
	for (size_t i = 0; i < COUNT_OF(samples); i++)
		check(&samples[i]);
}

/* What only the server can tell, for those who ask for it. */
static void unseen(void **state)
{
	(void)state;
	static const char *const texts[] = {"select f()", "call p()", "do 'x'",
	    "create table pg_temp.t (a int)", "create view v as select 1", "execute x",
	    "explain analyze execute x", "select 1; select f(1)",
	    "begin; create table t as select 1"};
	static const char *const others[] = {"select count(*) from t", "drop table t",
	    "select 1", "begin", "set x = 1", "with a as (select 1) select 1",
	    "unlisten *"};
	const struct effects_ask ask = {.has_leaves = true, .has_calls = true};

	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		struct sql_effects found =
		    effects_of_text(texts[i], strlen(texts[i]), &ask);
		if (!(found.leaves & LEAK_UNSEEN) ||
		    effects_is_plain(texts[i], strlen(texts[i]), &ask))
			fail_msg("%s", texts[i]);
		assert_false(look(texts[i]).all & LEAK_UNSEEN);
	}
	for (size_t i = 0; i < COUNT_OF(others); i++) {
		struct sql_effects found =
		    effects_of_text(others[i], strlen(others[i]), &ask);
		if (found.leaves & LEAK_UNSEEN || found.may_notify)
			fail_msg("%s", others[i]);
	}
}

/* What may send notifications, and has no tag that shows it. */
static void notifying(void **state)
{
	(void)state;
	static const char *const texts[] = {"select pg_notify('a', 'b')",
	    "select 1, pg_catalog.PG_NOTIFY($1, $2)", "begin; select pg_notify(1)",
	    "select f()", "with a as (insert into t values (1)) select 1"};
	const struct effects_ask ask = {.has_leaves = true, .has_calls = true};

	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		size_t len = strlen(texts[i]);
		if (!effects_of_text(texts[i], len, &ask).may_notify ||
		    effects_is_plain(texts[i], len, &ask))
			fail_msg("%s", texts[i]);
	}
}

static void select_into(void **state)
{
	(void)state;
	static const char *const leaving[] = {
	    "select 1 into temp t",
	    "SELECT * INTO TEMPORARY TABLE t FROM x",
	    "with a as (select 1) select * into local temp t from a",
	    "select 'into', 1 into temp t",
	    "select 1 iNTO /* c */ temp t",
	};
	static const char *const harmless[] = {
	    "select 1 into t",
	    "insert into temp values (1)\n -- but that is a table of this name",
	    "select 'into temp t'",
	    "select 1 as pinto, temp from t",
	    "select 1 as x, 'into' temp from t",
	    "select pinto temp",
	};
	for (size_t i = 0; i < COUNT_OF(leaving); i++)
		check(&(struct sample){leaving[i], BIT(TEMP), BIT(TEMP)});
	for (size_t i = 0; i < COUNT_OF(harmless); i++)
		check(&(struct sample){harmless[i], 0, 0});
}

static void texts_may_end_anywhere(void **state)
{
	(void)state;
	static const char text[] =
	    "/* a */ -- b\n create temp table \"x\" (a int) on commit drop; set "
	    "session role to none; declare c cursor with hold for select "
	    "pg_advisory_lock_shared (1)";
	const struct effects_ask ask = {.has_leaves = true, .has_clock = true};
	for (size_t len = 0; len < sizeof(text); len++) {
		char *copy = test_malloc(len + 1);
		memcpy(copy, text, len);
		effects_of_text(copy, len, &ask);
		test_free(copy);
	}
}

static struct leak_look tracked_look(const char *text, const struct vars *vars)
{
	const struct effects_ask ask = {
	    .schema = vars_schema(vars), .has_leaves = true};
	struct sql_effects found = effects_of_text(text, strlen(text), &ask);

	return effects_leaves(&found, vars);
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
	static const char *const configs[] = {
	    "select set_config('timezone', 'x', false)",
	    "select SET_CONFIG(E'TimeZone', $1, f(true))"};
	static const char *const others[] = {"set work_mem = 1", "set schema 'x'",
	    "set search_path = x", "set timezones = 1"};
	for (size_t i = 0; i < COUNT_OF(tracked); i++)
		assert_int_equal(
		    tracked_look(tracked[i], &vars).all, LEAK_HARMLESS_SET);
	for (size_t i = 0; i < COUNT_OF(others); i++)
		assert_int_equal(tracked_look(others[i], &vars).all, BIT(SET));
	for (size_t i = 0; i < COUNT_OF(configs); i++)
		assert_int_equal(tracked_look(configs[i], &vars).all, 0);
	assert_int_equal(
	    tracked_look("select set_config('search_path', 'x', false)", &vars).all,
	    BIT(CONFIG));
	vars_set(&vars, (size_t)vars_schema_find(schema, "search_path"), "x");
	assert_int_equal(tracked_look("set schema 'x'", &vars).all, LEAK_HARMLESS_SET);
	vars_done(&vars);
	vars_schema_free(&schema);
}

/* ---- parameters ---- */

static void parameters_are_brought_back(void **state)
{
	struct vars_schema *schema = vars_schema_new("IntervalStyle");
	uint64_t interval = UINT64_C(1) << VAR_BUILTIN_COUNT;
	const struct {
		const char *text;
		uint64_t session, local;
		bool has_reset;
	} samples[] = {
	    {"", 0, 0, false},
	    {"select 1", 0, 0, false},
	    {"reset", 0, 0, true},
	    {"reset timezone", VAR_BIT(TIMEZONE), 0, true},
	    {"/* a */ ; RESET -- b\n \"TimeZone\";", VAR_BIT(TIMEZONE), 0, true},
	    {"reset time zone", VAR_BIT(TIMEZONE), 0, true},
	    {"reset work_mem", 0, 0, true},
	    {"reset all", UINT64_MAX, 0, true},
	    {"resets timezone", 0, 0, false},
	    {"set intervalstyle to default", interval, 0, false},
	    {"set intervalstyle=default", interval, 0, false},
	    {"set session intervalstyle = DEFAULT ;", interval, 0, false},
	    {"set local intervalstyle = DEFAULT ;", 0, interval, false},
	    {"set intervalstyle = 'default'", 0, 0, false},
	    {"set work_mem to default", 0, 0, false},
	    {"set time zone default", VAR_BIT(TIMEZONE), 0, false},
	    {"set local time zone local", 0, VAR_BIT(TIMEZONE), false},
	    {"set time zone 'UTC'", 0, 0, false},
	    {"set names", VAR_BIT(CLIENT_ENCODING), 0, false},
	    {"set names;", VAR_BIT(CLIENT_ENCODING), 0, false},
	    {"set names default", VAR_BIT(CLIENT_ENCODING), 0, false},
	    {"set names 'UTF8'", 0, 0, false},
	    {"set timezone = 'x'; set timezone to default", VAR_BIT(TIMEZONE), 0,
		false},
	    {"reset timezone; set timezone = 'x'", 0, 0, true},
	    {"reset all; set timezone = 'x'", ~VAR_BIT(TIMEZONE), 0, true},
	    {"set timezone to default; set local timezone to default", 0,
		VAR_BIT(TIMEZONE), false},
	    {"set", 0, 0, false},
	    {"set session", 0, 0, false},
	    {"set timezone", 0, 0, false},
	};

	const struct effects_ask ask = {.schema = schema};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(samples); i++)
		for (size_t nul = 0; nul < 2; nul++) {
			struct reset_effects look = effects_of_text(
			    samples[i].text, strlen(samples[i].text) + nul, &ask)
							.resets;
			if (look.session != samples[i].session ||
			    look.local != samples[i].local ||
			    look.has_reset != samples[i].has_reset)
				fail_msg("%s", samples[i].text);
		}
	vars_schema_free(&schema);
}

static void effects_of_several_texts(void **state)
{
	struct reset_effects one = {.session = 1, .has_reset = true};
	struct reset_effects two = {.local = 2 + 4, .has_default = true};
	const struct reset_effects other = {.set = 1 + 4};

	(void)state;
	assert_true(effects_is_reset(&one) && effects_is_reset(&two));
	assert_false(effects_is_reset(&(struct reset_effects){.has_reset = true}));
	effects_add_resets(&two, &one);
	assert_true(two.session == 1 && two.local == 6);
	assert_true(two.has_reset && two.has_default);
	effects_add_resets(&two, &other);
	assert_true(two.session == 0 && two.local == 2);
}

/* Only parameters whose reset the server reports count. */
static void hidden_resets(void **state)
{
	struct vars_schema *schema = vars_schema_new("IntervalStyle");
	const struct effects_ask ask = {.schema = schema, .has_leaves = true};
	static const struct {
		const char *text;
		uint64_t hidden;
	} samples[] = {
	    {"select set_config('timezone', null, false)", VAR_BIT(TIMEZONE)},
	    {"select set_config('timezone', NULL, true)", 0},
	    {"select set_config('timezone', 'x', false)", 0},
	    {"select set_config('work_mem', null, false)", 0},
	    {"select f(set_config('a', 'b', false), set_config('timezone', null, $1))",
		VAR_BIT(TIMEZONE)},
	    {"do $$begin reset timezone; end$$", VAR_BIT(TIMEZONE)},
	    {"do language plpgsql 'begin set datestyle to default; end'",
		VAR_BIT(DATESTYLE)},
	    {"do $x$begin if a then reset all; end if; end$x$", UINT64_MAX},
	    {"do $$begin execute 'reset timezone'; end$$", VAR_BIT(TIMEZONE)},
	    {"do $$begin reset timezone; set timezone = 'x'; end$$", 0},
	    {"select $$begin reset timezone; end$$", 0},
	    {"do $$begin perform preset_timezone(); end$$", 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(samples); i++) {
		struct reset_effects found =
		    effects_of_text(samples[i].text, strlen(samples[i].text), &ask)
			.resets;
		if (found.hidden != samples[i].hidden || found.session || found.local)
			fail_msg("%s", samples[i].text);
	}
	vars_schema_free(&schema);
}

/* ---- prepared statements ---- */

static struct prepared_sql command(const char *text)
{
	size_t len = strlen(text);
	/* the copy has the exact size, so that sanitizers see a read past its end */
	char *copy = malloc(len ? len : 1);
	struct prepared_sql sql;

	assert_non_null(copy);
	memcpy(copy, text, len);
	struct sql_effects found = effects_of_text(copy, len, &(struct effects_ask){0});
	prepared_sql_read(copy, &found.command, &sql);
	free(copy);
	return sql;
}

static void assert_is(
    const char *text, enum command_kind kind, const char *written, const char *name)
{
	struct prepared_sql sql = command(text);

	assert_int_equal(sql.span.kind, kind);
	if (kind == COMMAND_NONE)
		return;
	assert_int_equal(sql.span.to - sql.span.from, strlen(written));
	assert_memory_equal(text + sql.span.from, written, strlen(written));
	assert_string_equal(sql.name, name);
}

static void names_are_found(void **state)
{
	(void)state;
	assert_is("prepare a as select 1", COMMAND_PREPARE, "a", "a");
	assert_is("PREPARE Abc(int)AS select 1;", COMMAND_PREPARE, "Abc", "abc");
	assert_is(" /* a /* b */ */ -- c\nexecute x (1);;", COMMAND_EXECUTE, "x", "x");
	assert_is("execute\"A \"\" b\"", COMMAND_EXECUTE, "\"A \"\" b\"", "A \" b");
	assert_is("deallocate x", COMMAND_DEALLOCATE, "x", "x");
	assert_is("deallocate prepare x;", COMMAND_DEALLOCATE, "x", "x");
	assert_is("deallocate prepare", COMMAND_DEALLOCATE, "prepare", "prepare");
	assert_is("deallocate prepare ;", COMMAND_DEALLOCATE, "prepare", "prepare");
	assert_is("deallocate all", COMMAND_DEALLOCATE_ALL, "all", "all");
	assert_is("deallocate prepare all", COMMAND_DEALLOCATE_ALL, "all", "all");
	assert_is("deallocate \"all\"", COMMAND_DEALLOCATE, "\"all\"", "all");
	assert_is("prepare transaction as select 1", COMMAND_PREPARE, "transaction",
	    "transaction");
}

static void execute_may_stand_within_others(void **state)
{
	(void)state;
	static const char *const texts[] = {"explain execute X", "explain execute X(1)",
	    "explain (analyze, costs off) execute X;",
	    "explain analyze verbose execute X", "create table t as execute X",
	    "create table t as execute X with no data;",
	    "create temp table t (a, b) on commit drop as execute X(1, 'a;b')",
	    "create unlogged table if not exists t as /* c */ execute X(1) with data",
	    "create local temporary table as_execute as execute X",
	    "explain analyze create table t as execute X"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_is(texts[i], COMMAND_EXECUTE, "X", "x");
}

static void other_queries_are_none(void **state)
{
	(void)state;
	const char *const texts[] = {"", "select 1", "prepare", "execute",
	    "prepared a as x", "prepare transaction 'a'", "prepare \"\" as select 1",
	    "execute \"a", "execute 1", "execute u&\"a\"", "execute a b", "prepare a",
	    "prepare a assert", "; execute a", "execute a.b",
	    "create view v as execute a", "create table execute (a int)",
	    "create table t (a int generated always as (1) stored, execute int)",
	    "explain (execute) select 1", "select 1; create table t as execute a",
	    "create table t as execute a; select 1"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_is(texts[i], COMMAND_NONE, "", "");
}

static void more_than_one_statement_is_none(void **state)
{
	(void)state;
	assert_is("execute a; select 1", COMMAND_NONE, "", "");
	assert_is("execute a(';'); select 1", COMMAND_NONE, "", "");
	assert_is("execute a('\\'); select 1", COMMAND_NONE, "", "");
	assert_is("execute a(e'\\'; x')", COMMAND_EXECUTE, "a", "a");
	assert_is("execute a(';', \";\", $$;$$, $x$;$$;$x$ /*;*/) --;", COMMAND_EXECUTE,
	    "a", "a");
	assert_is(
	    "prepare a as select $1 + $2; /* x */ ;-- y", COMMAND_PREPARE, "a", "a");
	assert_int_equal(command("prepare a as b ; ").span.end, 15);
}

/* As psqlODBC sends it. */
static void deallocate_may_stand_among_others(void **state)
{
	(void)state;
	assert_is("SAVEPOINT s;DEALLOCATE \"_PLAN0x1\";RELEASE s", COMMAND_DEALLOCATE,
	    "\"_PLAN0x1\"", "_PLAN0x1");
	assert_is("deallocate x; select 1", COMMAND_DEALLOCATE, "x", "x");
	assert_is("; deallocate x", COMMAND_DEALLOCATE, "x", "x");
	assert_is("select 1; deallocate all", COMMAND_NONE, "", "");
	assert_is("deallocate x; deallocate y", COMMAND_NONE, "", "");
	assert_is("deallocate x; deallocate all", COMMAND_NONE, "", "");
	assert_is("prepare x as select 1; deallocate x", COMMAND_NONE, "", "");
	assert_is("deallocate x; explain execute y", COMMAND_NONE, "", "");
}

static void long_names_are_cut(void **state)
{
	(void)state;
	char text[128] = "execute ";
	memset(text + 8, 'X', 62);
	strcpy(text + 70, "\xc3\xa9z");
	struct prepared_sql sql = command(text);
	assert_int_equal(sql.span.kind, COMMAND_EXECUTE);
	assert_int_equal(strlen(sql.name), 62);
	assert_int_equal(sql.name[0], 'x');
	text[8] = text[72] = '"';
	strcpy(text + 73, "");
	assert_int_equal(command(text).span.kind, COMMAND_EXECUTE);
}

static void statements_that_forget(void **state)
{
	static const struct {
		const char *text;
		bool forgets, may_forget, hides;
	} samples[] = {
	    {"DISCARD ALL", true, true, false},
	    {"; deallocate x", true, true, false},
	    {"begin; deallocate all; end", false, true, false},
	    {"select discarded, deallocat", false, false, false},
	    {"select 'x; deallocate all'", false, false, false},
	    {"do $$begin deallocate all; end$$", false, true, true},
	    {"do $$begin execute 'DEALLOCATE ALL'; end$$", false, true, true},
	    {"do $$begin perform 1; end$$", false, false, false},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(samples); i++) {
		struct sql_effects found = effects(samples[i].text);
		if (found.forgets != samples[i].forgets ||
		    found.may_forget != samples[i].may_forget ||
		    found.hides_forgetting != samples[i].hides)
			fail_msg("%s", samples[i].text);
	}
}

static void first_words_that_forget(void **state)
{
	static const char *const forgets[] = {"DISCARD ALL", "deallocate s", "DISCARD",
	    " \t\r\n\f\vDealLocate/**/ALL", "-- x\nDISCARD ALL", "--\rdiscard all",
	    "/* a /* b */ c */ DISCARD ALL", "/*/**/*/discard plans", ";; DISCARD ALL;",
	    "DEALLOCATE\"s\"", "/***/DISCARD", NULL};
	static const char *const keeps[] = {"", " ", "select 1", "DISCARDED",
	    "DEALLOCATE_x", "DISCARD\xc3\xa4", "discar", "-- DISCARD ALL",
	    "/* DISCARD ALL", "/*/ DISCARD ALL", "/* /* */ DISCARD ALL",
	    "- DISCARD ALL", "/ DISCARD ALL", "\"DISCARD\"", "EXPLAIN DISCARD", "-",
	    "/", "/*", "DISCARD$1", NULL};

	(void)state;
	for (const char *const *sql = forgets; *sql; sql++)
		if (!effects(*sql).forgets || !effects(*sql).may_forget)
			fail_msg("%s", *sql);
	for (const char *const *sql = keeps; *sql; sql++)
		if (effects(*sql).forgets)
			fail_msg("%s", *sql);
}

static void commands_are_known(void **state)
{
	(void)state;
	assert_true(effects("/* a */ Execute x").is_command);
	assert_false(effects("select 1").is_command);
	assert_true(effects_may_be_command("/* a */ Execute x", 17));
	assert_true(effects_may_be_command("/* a", 4));
	assert_false(effects_may_be_command("select 1", 8));
}

/* ---- other things ---- */

static void strings_that_stand_for_the_present_time(void **state)
{
	const struct effects_ask ask = {.has_clock = true};
	static const char *const clocks[] = {"select 'now'::timestamptz",
	    "select * from t where d > 'TODAY'", "select date ' tomorrow 04:05'",
	    "select $$yesterday$$::date", "select E'now'", "(select 'now')",
	    "insert into t values ('a', 'now')"};
	static const char *const others[] = {"select now()", "select 'nowhere'",
	    "select \"today\"",
	    "select 'it is a long way to where we are now, and it "
	    "will be late"
	    " when we come'",
	    "select 1 -- 'now'", "select '2024-01-01'"};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(clocks); i++)
		if (!effects_of_text(clocks[i], strlen(clocks[i]), &ask).reads_clock)
			fail_msg("%s", clocks[i]);
	for (size_t i = 0; i < COUNT_OF(others); i++)
		if (effects_of_text(others[i], strlen(others[i]), &ask).reads_clock)
			fail_msg("%s", others[i]);
}

static void settings_by_which_texts_are_read_silently(void **state)
{
	static const char *const sets[] = {"set bytea_output = 'escape'",
	    "SET LOCAL Transform_Null_Equals TO on",
	    "set session \"xmloption\" = content",
	    "select 1; reset all; set extra_float_digits to default",
	    "select set_config('ARRAY_NULLS', 'off', true)", "set local role a",
	    "set session authorization a", "set row_security = off",
	    "set timezone_abbreviations = 'India'", "set escape_string_warning = off",
	    "do $$ begin set local bytea_output = 'escape'; end $$",
	    "do $$ begin execute 'set xmlbinary = hex'; end $$",
	    "do $$ begin perform set_config(a, b, true); end $$"};
	static const char *const others[] = {"set work_mem = '1MB'",
	    "set a.bytea_output = 1", "select 'bytea_output'",
	    "do $$ begin set local work_mem = '1MB'; end $$",
	    "select set_config('search_path', 'bytea_output', true)"};
	const struct effects_ask ask = {.has_leaves = true};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(sets); i++)
		if (!(effects_of_text(sets[i], strlen(sets[i]), &ask).leaves &
			LEAK_READING))
			fail_msg("%s", sets[i]);
	for (size_t i = 0; i < COUNT_OF(others); i++)
		if (effects_of_text(others[i], strlen(others[i]), &ask).leaves &
		    LEAK_READING)
			fail_msg("%s", others[i]);
}

/* The unseen part of a text may do anything, and half a word decides nothing. */
static void texts_that_are_cut(void **state)
{
	struct vars_schema *schema = vars_schema_new("");
	struct effects_ask ask = {
	    .schema = schema, .has_leaves = true, .is_part = true};
	enum { LEN = EFFECTS_TEXT_MAX + 100 };
	char *text = test_malloc(LEN);
	struct sql_effects found;

	(void)state;
	found = effects_of_text("reset timezone", 14, &ask);
	assert_true(found.is_cut && found.may_forget && !found.resets.session);
	found = effects_of_text("reset timezone", 15, &ask);
	assert_true(!found.is_cut && found.resets.session);
	ask.is_part = false;
	memset(text, ' ', LEN);
	memcpy(text, "select 1;", 9);
	memcpy(text + EFFECTS_TEXT_MAX, "; listen x", 11);
	found = effects_of_text(text, LEN, &ask);
	assert_true(found.is_cut && !found.leaves);
	memcpy(text + EFFECTS_TEXT_MAX - 20, "; listen x", 11);
	found = effects_of_text(text, LEN, &ask);
	assert_true(!found.is_cut && found.leaves == BIT(LISTEN));
	test_free(text);
	vars_schema_free(&schema);
}

static void strings_end_where_postgresql_ends_them(void **state)
{
	const struct effects_ask escapes = {.has_leaves = true, .has_escapes = true};
	static const char *const hidden[] = {"select e'\\'; listen x'",
	    "select e'a' \n '\\'; listen x'", "select e'a' -- b\n '\\'; listen x'",
	    "select U&'\\''; listen x'", "select $a$ $b$; listen x $a$",
	    "select $$'$$ '; listen x'", "select 1 /* /* */ ; listen x */",
	    "select \"a\"\"; listen x\"", "select '; listen x", "select /*; listen x",
	    "select $a$; listen x"};
	static const char *const shown[] = {"select '\\'; listen x--'",
	    "select e'a' '\\'; listen x--'", "select b'\\'; listen x--'",
	    "select a$a$; listen x; $a$", "select $1; listen x; select $1",
	    "select n'\\'; listen x--'", "select e'a', '\\'; listen x--'",
	    "select */**/1; listen x"};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(hidden); i++)
		if (effects(hidden[i]).leaves)
			fail_msg("%s", hidden[i]);
	for (size_t i = 0; i < COUNT_OF(shown); i++)
		if (effects(shown[i]).leaves != BIT(LISTEN))
			fail_msg("%s", shown[i]);
	assert_false(effects_of_text("select '\\'; listen x'", 22, &escapes).leaves);
}

static void changes_of_the_schema(void **state)
{
	static const char *const changes[] = {"create table a (b int)",
	    "ALTER TABLE a ADD b int", "select 1; drop view a",
	    "create or replace function f() returns int as '' language sql",
	    "create unlogged table a as select 1", "alter type a rename to b",
	    "drop type a", "do $$ begin alter table a add b int; end $$",
	    "do $$ begin execute 'create table a (b int)'; end $$",
	    "do $$ begin execute format('drop type %I', a); end $$",
	    "create temp table a (b int); create table c (d int)",
	    "select 1 as b into a", "with b as (select 1) select * INTO table a from b",
	    "select 1 into unlogged \"a\"", "table b; select 1 as c into\na",
	    "explain (analyze, costs off) create table a as select 1",
	    "import foreign schema a from server b into c",
	    "insert into a values (1); select 1 into b"};
	static const char *const temporary[] = {"create temp table a (b int)",
	    "create global temporary table a (b int) on commit drop",
	    "create or replace temp view a as select 1",
	    "do $$ begin create temp table a (b int); end $$",
	    "select 1 as b into temp a", "select 1 into local temporary table a",
	    "explain analyze create temp table a as select 1"};
	static const char *const drops[] = {
	    "drop table a", "drop table if exists a, b"};
	static const char *const others[] = {"select 1", "create index a on b (c)",
	    "create unique index a on b (c)", "drop index a", "alter role a login",
	    "alter system set a = 1", "create user a", "select 'create table a'",
	    "insert into a values ('alter', 'drop')", "insert into a select 1",
	    "INSERT INTO temp select b from into_c", "select 'into a'",
	    "with b as (insert into a values (1) returning c) select c from b",
	    "merge into a using b on c = d when matched then delete",
	    "do $$ declare a int; begin select 1 into a; end $$",
	    "explain select 'create'", "do $$ begin perform 1; end $$",
	    "update alter_a set b = 1", "drop trigger a on b", "dropx table a"};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(changes); i++)
		if (!effects(changes[i]).changes_schema)
			fail_msg("%s: it changes the schema", changes[i]);
	for (size_t i = 0; i < COUNT_OF(temporary); i++)
		if (effects(temporary[i]).changes_schema ||
		    !effects(temporary[i]).makes_temp)
			fail_msg("%s: it is temporary", temporary[i]);
	for (size_t i = 0; i < COUNT_OF(drops); i++)
		if (effects(drops[i]).changes_schema || !effects(drops[i]).drops_table)
			fail_msg("%s: it drops a table", drops[i]);
	for (size_t i = 0; i < COUNT_OF(others); i++)
		if (effects(others[i]).changes_schema ||
		    effects(others[i]).makes_temp || effects(others[i]).drops_table)
			fail_msg("%s: it does not matter", others[i]);
}

static void tags_of_changes_of_the_schema(void **state)
{
	static const char *const changes[] = {"CREATE TABLE", "ALTER TYPE",
	    "DROP MATERIALIZED VIEW", "CREATE FUNCTION", "DROP TABLE"};
	/* also where a text has told of others */
	static const char *const more[] = {"GRANT", "REVOKE", "GRANT ROLE",
	    "REVOKE ROLE", "REASSIGN OWNED", "IMPORT FOREIGN SCHEMA"};
	static const char *const others[] = {"CREATE INDEX", "ALTER ROLE",
	    "DROP DATABASE", "SELECT 1", "CREATE", "CREATE ", "", "DROPS TABLE", "DO",
	    "COMMENT", "GRANTS", "INSERT 0 1", "ROLLBACK"};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(changes); i++)
		for (size_t told = 0; told < 2; told++)
			assert_int_equal(
			    effects_is_schema_tag(changes[i], strlen(changes[i]), told),
			    !told);
	for (size_t i = 0; i < COUNT_OF(more); i++)
		for (size_t told = 0; told < 2; told++)
			assert_true(
			    effects_is_schema_tag(more[i], strlen(more[i]), told));
	for (size_t i = 0; i < COUNT_OF(others); i++)
		assert_false(
		    effects_is_schema_tag(others[i], strlen(others[i]), false));
}

static void readings_that_are_hidden(void **state)
{
	struct vars_schema *schema = vars_schema_new(NULL);
	const struct effects_ask ask = {.schema = schema, .has_leaves = true};
	static const char *const hide[] = {"set search_path to a", "set schema 'a'",
	    "select set_config('search_path', 'a', false)"};
	static const char *const others[] = {"set local search_path to a",
	    "set application_name to a", "set statement_timeout to 1",
	    "select set_config('search_path', 'a', true)"};
	struct vars reported;

	(void)state;
	vars_init(&reported, schema);
	for (size_t i = 0; i < COUNT_OF(hide); i++) {
		struct sql_effects e =
		    effects_of_text(hide[i], strlen(hide[i]) + 1, &ask);
		assert_true(effects_hide_reading(&e, schema, &reported));
	}
	for (size_t i = 0; i < COUNT_OF(others); i++) {
		struct sql_effects e =
		    effects_of_text(others[i], strlen(others[i]) + 1, &ask);
		assert_false(effects_hide_reading(&e, schema, &reported));
	}
	vars_done(&reported);
	vars_schema_free(&schema);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(first_words),
	    cmocka_unit_test(most_texts_are_plain),
	    cmocka_unit_test(statements_behind_the_first_are_expected_only),
	    cmocka_unit_test(advisory_locks_of_the_session),
	    cmocka_unit_test(configuration_of_the_session),
	    cmocka_unit_test(placeholders),
	    cmocka_unit_test(unseen),
	    cmocka_unit_test(notifying),
	    cmocka_unit_test(select_into),
	    cmocka_unit_test(texts_may_end_anywhere),
	    cmocka_unit_test(tracked_parameters_leave_nothing),
	    cmocka_unit_test(parameters_are_brought_back),
	    cmocka_unit_test(effects_of_several_texts),
	    cmocka_unit_test(hidden_resets),
	    cmocka_unit_test(names_are_found),
	    cmocka_unit_test(execute_may_stand_within_others),
	    cmocka_unit_test(other_queries_are_none),
	    cmocka_unit_test(more_than_one_statement_is_none),
	    cmocka_unit_test(deallocate_may_stand_among_others),
	    cmocka_unit_test(long_names_are_cut),
	    cmocka_unit_test(statements_that_forget),
	    cmocka_unit_test(first_words_that_forget),
	    cmocka_unit_test(commands_are_known),
	    cmocka_unit_test(strings_that_stand_for_the_present_time),
	    cmocka_unit_test(settings_by_which_texts_are_read_silently),
	    cmocka_unit_test(texts_that_are_cut),
	    cmocka_unit_test(strings_end_where_postgresql_ends_them),
	    cmocka_unit_test(changes_of_the_schema),
	    cmocka_unit_test(tags_of_changes_of_the_schema),
	    cmocka_unit_test(readings_that_are_hidden),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
