/* Tracked parameters: interning, differences, and the SET that makes them equal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "put_sets.h"
#include "wire/codec.h"
#include "wire/reported_names.h"
#include "wire/vars.h"

static struct vars_schema *schema;
static struct vars client, server;
static struct buf out;

static int start(void **state)
{
	(void)state;
	schema =
	    vars_schema_new("IntervalStyle, search_path,,timezone , intervalSTYLE");
	vars_init(&client, schema);
	vars_init(&server, schema);
	buf_init(&out, 0);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	vars_done(&client);
	vars_done(&server);
	vars_schema_free(&schema);
	assert_null(schema);
	buf_done(&out);
	return 0;
}

static void set(struct vars *v, const char *name, const char *value)
{
	int i = vars_schema_find(schema, name);

	assert_true(i >= 0);
	assert_int_equal(vars_set(v, (size_t)i, value), 0);
}

static void schema_lists_names_once(void **state)
{
	(void)state;
	/* two are extra parameters; of those that servers report three are new */
	assert_int_equal(
	    vars_schema_count(schema), VAR_BUILTIN_COUNT + 5 + REPORTED_NAMES_MOST);
	assert_true(vars_schema_is_named(schema, VAR_BUILTIN_COUNT + 1));
	assert_false(vars_schema_is_named(schema, VAR_BUILTIN_COUNT + 2));
	assert_string_equal(vars_schema_name(schema, VAR_DATESTYLE), "DateStyle");
	assert_string_equal(
	    vars_schema_name(schema, VAR_APPLICATION_NAME), "application_name");
	assert_string_equal(vars_schema_name(schema, 5), "IntervalStyle");
	assert_int_equal(vars_schema_find(schema, "TIMEZONE"), VAR_TIMEZONE);
	assert_int_equal(vars_schema_find(schema, "nope"), -1);
	struct vars_schema *plain = vars_schema_new(NULL);
	assert_int_equal(
	    vars_schema_count(plain), VAR_BUILTIN_COUNT + 5 + REPORTED_NAMES_MOST);
	assert_false(vars_schema_is_named(plain, VAR_BUILTIN_COUNT));
	vars_schema_free(&plain);
}

static void what_may_be_set_and_reset(void **state)
{
	int standby = vars_schema_find(schema, "in_hot_standby");

	(void)state;
	assert_true(standby >= 0);
	assert_false(vars_schema_may_be_set(schema, (size_t)standby));
	assert_true(vars_schema_may_be_set(schema, VAR_TIMEZONE));
	buf_clear(&out);
	vars_put_reset(schema, VAR_TIMEZONE, &out);
	assert_string_equal(buf_text(&out), "RESET TimeZone");
	assert_true(vars_is_equal(&client, &server));
	set(&client, "TimeZone", "UTC");
	assert_false(vars_is_equal(&client, &server));
	assert_false(vars_is_same(&client, &server, VAR_TIMEZONE));
	assert_true(vars_is_same(&client, &server, VAR_DATESTYLE));
	set(&server, "TimeZone", "UTC");
	assert_true(vars_is_same(&client, &server, VAR_TIMEZONE));
	assert_true(vars_is_equal(&client, &server));
}

static void values_are_shared(void **state)
{
	(void)state;
	assert_null(vars_get(&client, VAR_TIMEZONE));
	set(&client, "TimeZone", "UTC");
	set(&server, "TimeZone", "UTC");
	assert_ptr_equal(
	    vars_get(&client, VAR_TIMEZONE), vars_get(&server, VAR_TIMEZONE));
	set(&client, "TimeZone", NULL);
	assert_null(vars_get(&client, VAR_TIMEZONE));
	assert_string_equal(vars_get(&server, VAR_TIMEZONE), "UTC");
	set(&server, "TimeZone", "UTC"); /* the same set again */
	assert_string_equal(vars_get(&server, VAR_TIMEZONE), "UTC");
}

static void take_leaves_unset_alone(void **state)
{
	(void)state;
	vars_take(&client, &server);
	assert_ptr_equal(client.set, server.set);
	set(&client, "TimeZone", "UTC");
	set(&client, "DateStyle", "ISO");
	set(&server, "TimeZone", "GMT");
	vars_take(&client, &server);
	assert_string_equal(vars_get(&client, VAR_TIMEZONE), "GMT");
	assert_string_equal(vars_get(&client, VAR_DATESTYLE), "ISO");
}

static void fill_leaves_set_ones_alone(void **state)
{
	(void)state;
	set(&client, "TimeZone", "UTC");
	set(&server, "TimeZone", "GMT");
	set(&server, "DateStyle", "ISO");
	vars_fill(&client, &server);
	assert_string_equal(vars_get(&client, VAR_TIMEZONE), "UTC");
	assert_string_equal(vars_get(&client, VAR_DATESTYLE), "ISO");
	vars_fill(&client, &client);
	assert_string_equal(vars_get(&client, VAR_TIMEZONE), "UTC");
}

static void equal_sets_are_one(void **state)
{
	(void)state;
	struct vars_set *none = client.set;

	set(&client, "TimeZone", "UTC");
	set(&client, "DateStyle", "ISO");
	set(&server, "DateStyle", "ISO");
	assert_ptr_not_equal(client.set, server.set);
	set(&server, "TimeZone", "UTC");
	assert_ptr_equal(client.set, server.set);
	assert_false(vars_is_different(&client, &server));
	/* Changing one set does not change the other that shares it. */
	set(&server, "TimeZone", "GMT");
	assert_string_equal(vars_get(&client, VAR_TIMEZONE), "UTC");
	set(&client, "TimeZone", NULL);
	set(&client, "DateStyle", NULL);
	set(&client, "DateStyle", NULL);
	assert_ptr_equal(client.set, none);
}

static void only_true_differences_are_set(void **state)
{
	(void)state;
	assert_false(vars_is_different(&client, &server));
	set(&client, "application_name", "a");
	assert_false(vars_is_different(&client, &server)); /* the server has no value */
	set(&server, "application_name", "A");
	assert_true(vars_is_different(&client, &server)); /* names have case */
	set(&server, "application_name", "a");
	assert_false(vars_is_different(&client, &server));
	assert_int_equal(put_sets(&client, &server, &out), 0);
	assert_int_equal(out.len, 0);
	set(&client, "application_name", "it's");
	set(&client, "TimeZone", "x\\y");
	set(&server, "TimeZone", "UTC");
	assert_true(vars_is_different(&client, &server));
	assert_int_equal(put_sets(&client, &server, &out), 2);
	assert_string_equal(
	    buf_text(&out), "SET TimeZone=E'x\\\\y';SET application_name='it''s';");
}

static void ids_stand_for_values(void **state)
{
	uint64_t first, second;

	(void)state;
	set(&client, "application_name", "a");
	first = vars_id(&client);
	assert_true(first > 0);
	/* while nobody has the first values, the id is not given to others */
	set(&client, "application_name", "b");
	second = vars_id(&client);
	assert_true(second != first);
	set(&client, "application_name", "c");
	assert_true(vars_id(&client) != first && vars_id(&client) != second);
	set(&server, "application_name", "c");
	assert_true(vars_id(&client) == vars_id(&server));
}

static void search_path(const char *value, const char *sql)
{
	buf_clear(&out);
	set(&client, "search_path", value);
	assert_int_equal(put_sets(&client, &server, &out), 1);
	assert_string_equal(buf_text(&out), sql);
}

/* SET would take the value for one name, and change how a list is written. */
static void search_path_is_set_as_it_is(void **state)
{
	(void)state;
	set(&server, "search_path", "public");
	search_path("\"$user\",public",
	    "SELECT pg_catalog.set_config('search_path','\"$user\",public',false);");
	search_path("", "SELECT pg_catalog.set_config('search_path','',false);");
	search_path("it's; DROP TABLE t",
	    "SELECT pg_catalog.set_config('search_path','it''s; DROP TABLE t',false);");
	buf_clear(&out);
	assert_true(vars_is_put_set(&client, &server,
	    (size_t)vars_schema_find(schema, "search_path"), "LOCAL ", &out));
	assert_string_equal(buf_text(&out),
	    "SELECT pg_catalog.set_config('search_path','it''s; DROP TABLE t',true)");
}

/* The bytes of a startup packet are those of the database, in whatever encoding the
 * query is read. */
static void raw_values_are_sent_in_ascii(void **state)
{
	(void)state;
	set(&client, "search_path", "\xc3\xa4'\\");
	set(&client, "TimeZone", "UTC");
	vars_put_set_raw(&client, VAR_TIMEZONE, &out);
	assert_string_equal(buf_text(&out), "SET TimeZone='UTC'");
	buf_clear(&out);
	vars_put_set_raw(
	    &client, (size_t)vars_schema_find(schema, "search_path"), &out);
	assert_string_equal(buf_text(&out),
	    "SELECT pg_catalog.set_config('search_path',E'\\xc3\\xa4''\\\\',false)");
}

static void values_keep_their_encoding(void **state)
{
	(void)state;
	size_t path = (size_t)vars_schema_find(schema, "search_path");

	set(&client, "search_path", "caf\xc3\xa9");
	assert_true(vars_is_outside_ascii(&client, path));
	assert_null(vars_encoding(&client, path));
	/* reported together with the encoding */
	set(&client, "client_encoding", "UTF8");
	assert_int_equal(vars_set_encoding(&client, UINT64_C(1) << path), 0);
	assert_string_equal(vars_encoding(&client, path), "UTF8");
	set(&client, "client_encoding", "LATIN1");
	assert_string_equal(vars_encoding(&client, path), "UTF8");
	vars_copy(&server, &client, path);
	assert_true(vars_is_same(&client, &server, path));
	/* the same bytes are another value in another encoding */
	set(&client, "search_path", "caf\xc3\xa9");
	assert_string_equal(vars_encoding(&client, path), "LATIN1");
	assert_false(vars_is_same(&client, &server, path));
	set(&client, "search_path", "a");
	assert_null(vars_encoding(&client, path));
	assert_true(vars_is_put_set(&server, &client, path, "", &out));
	assert_string_equal(buf_text(&out),
	    "SELECT pg_catalog.set_config('search_path',pg_catalog.convert_from("
	    "pg_catalog.decode('636166c3a9','hex'),'UTF8'),false) IS NULL");
}

/* Another thread has a schema of its own with the same names. */
static void values_go_to_another_schema(void **state)
{
	(void)state;
	struct vars_schema *other = vars_schema_new("IntervalStyle,search_path");
	struct vars there;

	vars_init(&there, other);
	assert_int_equal(vars_set(&there, VAR_DATESTYLE, "german"), 0);
	set(&server, "client_encoding", "LATIN1");
	set(&server, "application_name", "b\xe4r");
	set(&server, "search_path", "");
	vars_put_all(&server, &out);
	vars_put_all(&client, &out);
	const uint8_t *at = out.bytes;
	assert_int_equal(vars_take_all(&there, &at), 0);
	for (size_t i = 0; i < vars_schema_count(schema); i++) {
		const char *value = vars_get(&server, i);
		if (!value)
			assert_null(vars_get(&there, i));
		else
			assert_string_equal(vars_get(&there, i), value);
	}
	assert_string_equal(vars_encoding(&there, VAR_APPLICATION_NAME), "LATIN1");
	assert_int_equal(vars_take_all(&there, &at), 0);
	assert_null(vars_get(&there, VAR_APPLICATION_NAME));
	assert_ptr_equal(at, out.bytes + out.len);
	vars_done(&there);
	vars_schema_free(&other);
}

static void long_values(void **state)
{
	static char big[100000];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	set(&client, "application_name", big);
	set(&server, "application_name", "");
	assert_int_equal(put_sets(&client, &server, &out), 1);
	assert_int_equal(out.len, sizeof(big) - 1 + strlen("SET application_name='';"));
}

static void status_prefers_the_wanted(void **state)
{
	static const char expected[] = "S\0\0\0\x12"
				       "DateStyle\0ISO\0"
				       "S\0\0\0\x12"
				       "TimeZone\0UTC_\0";
	struct buf reported;

	(void)state;
	buf_init(&reported, 0);
	set(&client, "DateStyle", "ISO");
	set(&server, "DateStyle", "German");
	set(&server, "TimeZone", "UTC_");
	vars_put_status(&client, &server, &reported, &out);
	assert_int_equal(out.len, sizeof(expected) - 1);
	assert_memory_equal(out.bytes, expected, out.len);
	buf_done(&reported);
}

/* The messages made from parameters are those that the server sent, except for
 * parameters that clients may set in their startup packet. */
static void status_in_the_order_of_the_server(void **state)
{
	struct buf reported, wanted;

	(void)state;
	buf_init(&reported, 0);
	buf_init(&wanted, 0);
	codec_put_parameter_status(&reported, "zeta", "1");
	codec_put_parameter_status(&reported, "in_hot_standby", "off");
	codec_put_parameter_status(&reported, "DateStyle", "German");
	codec_put_parameter_status(&reported, "alpha", "");
	set(&server, "DateStyle", "ISO");
	set(&server, "in_hot_standby", "on");
	set(&server, "search_path", "public");
	set(&client, "TimeZone", "UTC");
	vars_put_status(&client, &server, &reported, &out);
	codec_put_parameter_status(&wanted, "zeta", "1");
	codec_put_parameter_status(&wanted, "in_hot_standby", "on");
	codec_put_parameter_status(&wanted, "alpha", "");
	codec_put_parameter_status(&wanted, "DateStyle", "ISO");
	codec_put_parameter_status(&wanted, "TimeZone", "UTC");
	codec_put_parameter_status(&wanted, "search_path", "public");
	assert_int_equal(out.len, wanted.len);
	assert_memory_equal(out.bytes, wanted.bytes, out.len);
	/* what another process has given may be broken */
	reported.bytes[4]++;
	buf_clear(&out);
	vars_put_status(&client, &server, &reported, &out);
	assert_int_equal(
	    out.len, wanted.len - sizeof("S....zeta.1") - sizeof("S....alpha."));
	buf_done(&reported);
	buf_done(&wanted);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(schema_lists_names_once),
	    CASE(what_may_be_set_and_reset),
	    CASE(values_are_shared),
	    CASE(take_leaves_unset_alone),
	    CASE(fill_leaves_set_ones_alone),
	    CASE(equal_sets_are_one),
	    CASE(only_true_differences_are_set),
	    CASE(ids_stand_for_values),
	    CASE(search_path_is_set_as_it_is),
	    CASE(raw_values_are_sent_in_ascii),
	    CASE(values_keep_their_encoding),
	    CASE(values_go_to_another_schema),
	    CASE(long_values),
	    CASE(status_prefers_the_wanted),
	    CASE(status_in_the_order_of_the_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
