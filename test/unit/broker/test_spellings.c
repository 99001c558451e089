/*
 * Spellings of startup values: what is known without a server, and what is kept of the
 * answers of servers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "broker/login_params.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

enum { ANSWERS = 128 };

static struct vars_schema *schema;
static struct login_params login_params;
static struct spellings *spellings;
static struct vars asked;

static int start(void **state)
{
	(void)state;
	schema = vars_schema_new("search_path");
	spellings = spellings_new();
	vars_init(&login_params.vars, schema);
	vars_init(&asked, schema);
	buf_init(&login_params.untracked, 0);
	assert_int_equal(vars_set(&login_params.vars, VAR_TIMEZONE, "UTC"), 0);
	assert_int_equal(vars_set(&login_params.vars, VAR_APPLICATION_NAME, ""), 0);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	spellings_free(&spellings);
	vars_done(&login_params.vars);
	vars_done(&asked);
	buf_done(&login_params.untracked);
	vars_schema_free(&schema);
	return 0;
}

/* What becomes of a value that is asked for; NULL: that is not known. */
static const char *known(size_t i, const char *value)
{
	uint64_t unknown;
	int failed = 0;

	assert_int_equal(vars_set(&asked, i, value), 0);
	unknown = spellings_apply(spellings, &login_params, &asked, &failed);
	assert_int_equal(failed, 0);
	return unknown >> i & 1 ? NULL : vars_get(&asked, i);
}

static void zone(int number, char out[16])
{
	snprintf(out, 16, "zone%d", number);
}

static void keep(int number, const char *value)
{
	char text[16];

	zone(number, text);
	spellings_keep(spellings, VAR_TIMEZONE, "UTC", text, value);
}

static const char *kept(int number)
{
	char text[16];

	zone(number, text);
	return known(VAR_TIMEZONE, text);
}

static void answers_are_for_one_base(void **state)
{
	(void)state;
	assert_null(kept(1));
	keep(1, "One");
	assert_string_equal(kept(1), "One");
	assert_int_equal(vars_set(&login_params.vars, VAR_TIMEZONE, "CET"), 0);
	assert_null(kept(1));
	assert_string_equal(known(VAR_TIMEZONE, "cet"), "CET");
	/* servers do not report it, so it is never set */
	assert_string_equal(known(VAR_DATESTYLE, "iso"), "iso");
}

static void the_oldest_answers_go(void **state)
{
	(void)state;
	for (int i = 0; i < ANSWERS; i++)
		keep(i, "old");
	assert_string_equal(kept(0), "old");
	keep(ANSWERS, "new");
	keep(ANSWERS, "newer");
	assert_string_equal(kept(ANSWERS), "newer");
	assert_string_equal(kept(0), "old");
	assert_null(kept(1));
	assert_string_equal(kept(2), "old");
}

static void long_answers_are_not_kept(void **state)
{
	static char text[1000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	keep(1, text);
	assert_null(kept(1));
	spellings_keep(spellings, VAR_TIMEZONE, "UTC", text, "CET");
	assert_null(known(VAR_TIMEZONE, text));
}

static void names_are_cleaned_as_the_version_does(void **state)
{
	static const char name[] = "\xc3\xa4\tb\\";
	char text[80], shown[64];

	(void)state;
	assert_string_equal(known(VAR_APPLICATION_NAME, name), "???b\\");
	codec_put_parameter_status(&login_params.untracked, "is_superuser", "off");
	codec_put_parameter_status(&login_params.untracked, "server_version", "15.6");
	assert_string_equal(known(VAR_APPLICATION_NAME, name), "???b\\");
	buf_clear(&login_params.untracked);
	codec_put_parameter_status(&login_params.untracked, "is_superuser", "off");
	codec_put_parameter_status(
	    &login_params.untracked, "server_version", "16.0 (x)");
	assert_string_equal(known(VAR_APPLICATION_NAME, name), "\\xc3\\xa4\\x09b\\");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memset(shown, 'x', sizeof(shown) - 1);
	shown[sizeof(shown) - 1] = '\0';
	assert_string_equal(known(VAR_APPLICATION_NAME, text), shown);
	text[61] = '\n';
	shown[61] = '\0';
	assert_string_equal(known(VAR_APPLICATION_NAME, text), shown);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(answers_are_for_one_base),
	    CASE(the_oldest_answers_go),
	    CASE(long_answers_are_not_kept),
	    CASE(names_are_cleaned_as_the_version_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
