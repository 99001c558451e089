/* The grammar of connection strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "conf/connstr.h"

/* Writes every pair as "[key|value]", then "end" or "error". */
static void check(const char *text, const char *expected)
{
	char copy[200], got[400] = "";
	char *at = copy;
	const char *key, *value;
	int rc;

	snprintf(copy, sizeof(copy), "%s", text);
	while ((rc = connstr_next(&at, &key, &value)) > 0)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "[%s|%s]", key,
		    value);
	snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s",
	    rc < 0 ? "error" : "end");
	assert_string_equal(got, expected);
}

static void pairs(void **state)
{
	(void)state;
	check("", "end");
	check("   ", "end");
	check("host=h port=1", "[host|h][port|1]end");
	check("  host = h   port  =1 ", "[host|h][port|1]end");
	check("a=x\ty", "[a|x\ty]end");
	check("a=b=c", "[a|b=c]end");
	check("a=it's", "[a|it's]end");
}

static void quotes(void **state)
{
	(void)state;
	check("q='a b'", "[q|a b]end");
	check("q='it''s' r='x'", "[q|it's][r|x]end");
	check("q='''' r=1", "[q|'][r|1]end");
	check("q='a\\' r=1", "[q|a\\][r|1]end");
	/* the character behind the quote is skipped */
	check("q='a'Xr=1", "[q|a][r|1]end");
}

static void errors(void **state)
{
	(void)state;
	check("host", "error");
	check("host h", "error");
	check("=x", "error");
	check("a=", "error");
	check("a=   ", "error");
	check("a='' b=1", "[a|][b|1]end");
	check("a='open", "error");
	check("a='open''", "error");
	check("a=1 b", "[a|1]error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pairs),
	    cmocka_unit_test(quotes),
	    cmocka_unit_test(errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
