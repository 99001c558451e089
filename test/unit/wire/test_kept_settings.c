/*
 * Settings that go along with a client: the SQL for them, and the names that texts set.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "wire/kept_settings.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define END                                                               \
	") x(n,v) WHERE pg_catalog.set_config(n,pg_catalog.convert_from(" \
	"pg_catalog.decode(v,'hex'),pg_catalog.getdatabaseencoding()),false) IS NULL;"

/* From "name=hex name=hex"; "": none. */
static struct kept_settings *list(const char *text)
{
	struct kept_settings *settings;
	char bytes[256];
	size_t len = strlen(text);

	memcpy(bytes, text, len + 1);
	for (size_t i = 0; i < len; i++)
		if (bytes[i] == '=' || bytes[i] == ' ')
			bytes[i] = '\0';
	settings = kept_settings_new(bytes, len ? len + 1 : 0);
	assert_true(!len == !settings);
	return settings;
}

static void settings_are_put_and_taken_back(void **state)
{
	static const struct {
		const char *now, *wanted, *own, *back, *put;
	} rows[] = {
	    {"", "", "", "", ""},
	    {"", "a=61 b=", "", "", "SELECT FROM (VALUES ('a','61'),('b','')" END},
	    {"a=61 b=62", "", "b=63", "SELECT FROM (VALUES ('a',NULL),('b','63')" END,
		""},
	    {"a=61 b=62", "a=61 b=63", "", "", "SELECT FROM (VALUES ('b','63')" END},
	    {"a=61", "a=61", "", "", ""},
	    {"a=-", "", "a=61", "SELECT FROM (VALUES ('a','61')" END, ""},
	    {"", "a=-", "a=61", "", "SELECT FROM (VALUES ('a',NULL)" END},
	    {"a=61 role=62 session_authorization=63", "role=62 a=62", "",
		"SELECT FROM (VALUES ('session_authorization',NULL),('role',NULL)" END,
		"SELECT FROM (VALUES ('a','62'),('role','62')" END},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kept_settings *now = list(rows[i].now);
		struct kept_settings *wanted = list(rows[i].wanted);
		struct kept_settings *own = list(rows[i].own);
		struct buf sql;
		buf_init(&sql, 0);
		assert_int_equal(
		    kept_settings_put_back(now, wanted, own, &sql), !!*rows[i].back);
		assert_string_equal(sql.len ? buf_text(&sql) : "", rows[i].back);
		buf_clear(&sql);
		assert_int_equal(kept_settings_put(wanted, now, &sql), !!*rows[i].put);
		assert_string_equal(sql.len ? buf_text(&sql) : "", rows[i].put);
		buf_done(&sql);
		mem_free(now);
		mem_free(wanted);
		mem_free(own);
	}
}

static void lists_are_sorted(void **state)
{
	struct kept_settings *one = list("b=62 a=61 c=63 a=61"),
			     *same = list("a=61 b=62 c=63");

	(void)state;
	assert_true(kept_settings_is_same(one, same));
	assert_true(kept_settings_has(one, "c"));
	assert_false(kept_settings_has(one, "d"));
	mem_free(one);
	mem_free(same);
}

static void settings_by_which_texts_are_read(void **state)
{
	static const struct {
		const char *list;
		bool is_read, is_apart;
	} cases[] = {{"work_mem=31", false, false}, {"search_path=61", true, false},
	    {"a=61 bytea_output=68", true, true},
	    {"extra_float_digits=2d31", true, true},
	    {"extra_float_digits=30", true, true},
	    {"extra_float_digits=33", false, false},
	    {"extra_float_digits=33 xmloption=61", true, true}};

	(void)state;
	assert_false(
	    kept_settings_are_read(NULL) || kept_settings_are_read_apart(NULL));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kept_settings *settings = list(cases[i].list);
		assert_int_equal(kept_settings_are_read(settings), cases[i].is_read);
		assert_int_equal(
		    kept_settings_are_read_apart(settings), cases[i].is_apart);
		mem_free(settings);
	}
}

/* Of the values that ALTER has set, the one with the lowest rank counts. */
static void what_nobody_has_set(void **state)
{
	static const struct {
		const char *name, *value;
		bool is_default;
	} rows[] = {{"app.a", "62", true}, {"app.a", "61", false}, {"app.a", "", false},
	    {"app.b", "", true}, {"app.b", "61", false}, {"role", "6e6f6e65", true},
	    {"role", "61", false}};
	struct kept_settings *defaults =
	    list("3app.a=61 1app.a=62 2app.a=63 0app.aa=64");
	struct buf bytes;

	(void)state;
	buf_init(&bytes, 0);
	buf_put(&bytes, defaults->bytes, defaults->len);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(
		    kept_settings_is_default(&bytes, (const uint8_t *)rows[i].name,
			strlen(rows[i].name), (const uint8_t *)rows[i].value,
			strlen(rows[i].value)),
		    rows[i].is_default);
	buf_clear(&bytes);
	buf_put(&bytes, "0role\00061", 9);
	assert_true(kept_settings_is_default(
	    &bytes, (const uint8_t *)"role", 4, (const uint8_t *)"61", 2));
	buf_done(&bytes);
	mem_free(defaults);
}

static void difference_knows_the_servers_own_settings(void **state)
{
	struct kept_settings *own = list("a=61 b=62");
	struct kept_settings *wanted = list("c=63 b=-"), *found;
	struct buf session;

	(void)state;
	buf_init(&session, 0);
	buf_put(&session,
	    "a\0"
	    "61\0c\0"
	    "63",
	    9);
	buf_put_u8(&session, 0);
	assert_int_equal(kept_settings_difference(&session, own, &found), 0);
	assert_true(kept_settings_is_same(found, wanted));
	mem_free(found);
	mem_free(wanted);
	mem_free(own);
	buf_done(&session);
}

static void what_cannot_be_kept_is_refused(void **state)
{
	static const struct {
		const char *name, *value;
	} rows[] = {{"", "61"}, {"a'b", "61"}, {"A", "61"}, {"a", "6"}, {"a", "6G"},
	    {"a", "6A"}, {"\xc3\xa4", "61"}};
	struct buf out;

	(void)state;
	buf_init(&out, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_false(kept_settings_add(&out, (const uint8_t *)rows[i].name,
		    strlen(rows[i].name), (const uint8_t *)rows[i].value,
		    strlen(rows[i].value)));
	assert_int_equal(out.len, 0);
	while (kept_settings_add(
	    &out, (const uint8_t *)"app.name", 8, (const uint8_t *)"616263646566", 12))
		;
	assert_in_range(out.len, KEPT_SETTINGS_MOST - 32, KEPT_SETTINGS_MOST);
	assert_null(kept_settings_new("a", 1));
	assert_null(kept_settings_new("a'\0"
				      "61",
	    6));
	buf_done(&out);
}

static void names_are_found(void **state)
{
	static const struct {
		const char *text, *names; /* with commas */
		bool has_params, is_unknown;
	} rows[] = {
	    {"set app.a = 1", "app.a", false, false},
	    {"SET SESSION \"App\".B TO 'x'; set c.d=1", "app.b,c.d", false, false},
	    {"set work_mem = 1", "", false, false},
	    {"set local a.b = 1", "", false, false},
	    {"select set_config('a.b', 'x', false), set_config('a.b', 'y', true)",
		"a.b", false, false},
	    {"do 'begin perform set_config(''A.b'', ''x'', false); end'", "a.b", false,
		false},
	    {"select set_config ( $1, $2, false)", "", true, false},
	    {"select set_config('a.' || 'b', '', false)", "a.", false, true},
	    {"select set_config(x, '', false)", "", false, true},
	    {"select set_config('a.b'::text, '', false)", "a.b", false, false},
	    {"set \"a b\".c = 1", "", false, false},
	    {"set /* a */ a.b/* = */ = 1; set-- b\n\tc.d to 2", "a.b,c.d", false,
		false},
	    {"set session/* /* a */ */a.b = 1", "a.b", false, false},
	    {"set a . b = 1; set c.d = 1", "c.d", false, true},
	    {"set a./**/b = 1; set c.d = 1", "c.d", false, true},
	    {"set U&\"a\".\"b\" = 1; set c.d = 1", "c.d", false, true},
	    {"update t set a = 1. where b = c.d", "", false, false},
	    {"select 'a set of. But f(x)', 'set \"'", "", false, false},
	    {"set /* a.b = 1", "", false, false},
	    {"update t set \"a.b c\" = 1", "", false, false},
	    {"select set_config(/* a */ 'a.b', 'x', false)", "a.b", false, false},
	    {"select reset.a", "", false, false},
	    {"set a.b + 1", "", false, false},
	    {"set \xc3\xa4.b = 1", "", false, true},
	    {"set a.b = set_config", "a.b", false, false},
	    {"select set_config($1::text, '', false)", "", true, false},
	    {"select set_config($1 || 'a', '', false)", "", true, true},
	    {"select set_config($12", "", true, false},
	    {"select set_config($", "", false, true},
	    {"select set_config('a.b' || x)", "a.b", false, true},
	    {"select set_config('a.b'", "a.b", false, false},
	    {"select \"set_config\"('a.b', '', false)", "a.b", false, false},
	    {"select set_config + 1", "", false, false},
	    {"select U&\"set\\005fconfig\"('a.b', '', false)", "", false, true},
	    {"select U&\"data\" from t", "", false, false},
	    {"select set_config('a\\056b', '', false)", "", false, true},
	    {"set", "", false, false},
	    {"set a.", "", false, false},
	    {"set_config", "", false, false},
	    {"set_config(", "", false, true},
	    {"set_config('a", "", false, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct setting_names found;
		struct buf names;
		buf_init(&names, 0);
		found =
		    setting_names_of_text(rows[i].text, strlen(rows[i].text), &names);
		for (size_t k = 0; k + 1 < names.len; k++)
			if (!names.bytes[k])
				names.bytes[k] = ',';
		assert_string_equal(
		    names.len ? (const char *)names.bytes : "", rows[i].names);
		assert_int_equal(found.has_params, rows[i].has_params);
		assert_int_equal(found.is_unknown, rows[i].is_unknown);
		buf_done(&names);
	}
}

static void names_are_values_of_a_bind(void **state)
{
	static const char bind[] = "B\0\0\0\0p\0s\0\0\0\0\4\0\0\0\5App.a\0\0\0\3a b"
				   "\xff\xff\xff\xff\0\0\0\2.a\0";
	struct buf names;

	(void)state;
	buf_init(&names, 0);
	assert_true(
	    setting_names_of_bind((const uint8_t *)bind, sizeof(bind) - 1, &names));
	assert_int_equal(names.len, 6);
	assert_string_equal((const char *)names.bytes, "app.a");
	/* of every value its format may be told; a name that is too long or is not in
	 * ASCII cannot be asked for */
	static const char formats[] =
	    "B\0\0\0\0p\0s\0\0\2\0\0\0\1\0\2\0\0\0\3b.c\0\0\0\4\xc3\xa4.b";
	buf_clear(&names);
	assert_false(setting_names_of_bind(
	    (const uint8_t *)formats, sizeof(formats) - 1, &names));
	assert_string_equal((const char *)names.bytes, "b.c");
	uint8_t too_long[300] = "B\0\0\0\0p\0s\0\0\0\0\1\0\0\0\xc8"
				"a.";
	memset(too_long + 19, 'x', 198);
	assert_false(setting_names_of_bind(too_long, 17 + 200, &names));
	/* cut anywhere */
	for (size_t len = 5; len < sizeof(bind) - 1; len++)
		(void)setting_names_of_bind((const uint8_t *)bind, len, &names);
	buf_done(&names);
}

static void values_of_a_startup_packet(void **state)
{
	struct kept_settings *set = NULL, *more = NULL;
	char long_name[200];
	struct buf value;

	(void)state;
	assert_int_equal(kept_settings_set(&set, "Work_Mem", "1"), 0);
	assert_int_equal(kept_settings_set(&set, "app.a", "\xc3\xbc"), 0);
	assert_int_equal(kept_settings_set(&set, "work_mem", "24"), 0);
	assert_int_equal(set->len, sizeof("app.a\0c3bc\0work_mem\0003234"));
	assert_memory_equal(set->bytes, "app.a\0c3bc\0work_mem\0003234", set->len);
	/* what cannot be a name changes nothing */
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(kept_settings_set(&set, "a b", "1"), -1);
	assert_int_equal(kept_settings_set(&set, long_name, "1"), -1);
	assert_int_equal(set->len, sizeof("app.a\0c3bc\0work_mem\0003234"));
	assert_int_equal(kept_settings_set(&more, "work_mem", "7"), 0);
	assert_int_equal(kept_settings_add_missing(&more, set), 0);
	assert_memory_equal(more->bytes, "app.a\0c3bc\0work_mem\00037", more->len);
	assert_int_equal(kept_settings_add_missing(&more, NULL), 0);
	buf_init(&value, 0);
	assert_int_equal(kept_settings_take(&set, "work", &value), 0);
	assert_int_equal(kept_settings_take(&set, "app.a", &value), 1);
	assert_string_equal(buf_text(&value), "\xc3\xbc");
	assert_memory_equal(set->bytes, "work_mem\0003234", set->len);
	assert_int_equal(kept_settings_take(&set, "work_mem", NULL), 1);
	assert_null(set);
	assert_int_equal(kept_settings_take(&set, "work_mem", NULL), 0);
	buf_done(&value);
	mem_free(set);
	mem_free(more);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(settings_are_put_and_taken_back),
	    cmocka_unit_test(lists_are_sorted),
	    cmocka_unit_test(settings_by_which_texts_are_read),
	    cmocka_unit_test(what_nobody_has_set),
	    cmocka_unit_test(difference_knows_the_servers_own_settings),
	    cmocka_unit_test(what_cannot_be_kept_is_refused),
	    cmocka_unit_test(values_of_a_startup_packet),
	    cmocka_unit_test(names_are_found),
	    cmocka_unit_test(names_are_values_of_a_bind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
