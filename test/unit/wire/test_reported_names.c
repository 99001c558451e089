/*
 * Names that are learned from what servers report.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "put_sets.h"
#include "wire/reported_names.h"
#include "wire/vars.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

static void names_keep_their_places(void **state)
{
	(void)state;
	struct reported_names *names = reported_names_new();
	assert_int_equal(reported_names_find(names, "a.b"), -1);
	assert_int_equal(reported_names_add(names, "Other_Name1"), 0);
	assert_int_equal(reported_names_add(names, "a.b"), 1);
	assert_int_equal(reported_names_add(names, "OTHER_name1"), 0);
	assert_int_equal(reported_names_find(names, "A.B"), 1);
	assert_string_equal(reported_names_get(names, 0), "Other_Name1");
	assert_string_equal(reported_names_get(names, 2), "");
	reported_names_unref(&names);
	assert_null(names);
}

static void only_what_a_client_may_set_is_learned(void **state)
{
	static const char *const refused[] = {"server_version", "IS_SUPERUSER",
	    "session_authorization", "integer_datetimes", "server_encoding", "", "a b",
	    "a'b", "1a", "a;", "\xc3\xa4",
	    "a234567890123456789012345678901234567890123456789012345678901234"};

	(void)state;
	struct reported_names *names = reported_names_new();
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_int_equal(reported_names_add(names, refused[i]), -1);
	for (int i = 0; i < 2 * REPORTED_NAMES_MOST; i++) {
		char name[16];
		snprintf(name, sizeof(name), "name%d", i);
		assert_int_equal(
		    reported_names_add(names, name), i < REPORTED_NAMES_MOST ? i : -1);
	}
	reported_names_unref(&names);
}

/* Two threads have a schema each. */
static void schemas_share_what_one_learns(void **state)
{
	struct reported_names *names = reported_names_new();
	struct vars_schema *one = vars_schema_new("search_path");
	struct vars_schema *two = vars_schema_new("search_path");
	struct buf bytes;
	struct vars a, b;

	(void)state;
	vars_schema_share(one, names);
	vars_schema_share(two, names);
	reported_names_unref(&names);
	int i = vars_schema_learn(one, "Newer");
	assert_int_equal(vars_schema_learn(one, "timezone"), VAR_TIMEZONE);
	assert_true(i >= VAR_BUILTIN_COUNT);
	assert_int_equal(vars_schema_find(two, "newer"), i);
	assert_string_equal(vars_schema_name(two, (size_t)i), "Newer");
	assert_true(vars_schema_is_learned(two, (size_t)i));
	assert_false(vars_schema_is_learned(two, VAR_BUILTIN_COUNT));
	assert_false(vars_schema_is_named(two, (size_t)i));
	assert_true(vars_schema_may_be_set(two, (size_t)i));

	vars_init(&a, one);
	vars_init(&b, two);
	buf_init(&bytes, 0);
	assert_int_equal(vars_set(&a, (size_t)i, "it's"), 0);
	vars_put_all(&a, &bytes);
	const uint8_t *at = bytes.bytes;
	assert_int_equal(vars_take_all(&b, &at), 0);
	assert_string_equal(vars_get(&b, (size_t)i), "it's");
	/* it may be a list, of which SET would make one name */
	buf_clear(&bytes);
	assert_int_equal(vars_set(&a, (size_t)i, "other"), 0);
	vars_done(&b);
	vars_init(&b, one);
	assert_int_equal(vars_set(&b, (size_t)i, "it's"), 0);
	assert_int_equal(put_sets(&a, &b, &bytes), 1);
	assert_string_equal(
	    buf_text(&bytes), "SELECT pg_catalog.set_config('Newer','other',false);");
	vars_done(&a);
	vars_done(&b);
	buf_done(&bytes);
	vars_schema_free(&one);
	vars_schema_free(&two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_keep_their_places),
	    cmocka_unit_test(only_what_a_client_may_set_is_learned),
	    cmocka_unit_test(schemas_share_what_one_learns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
