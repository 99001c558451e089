/* Which lines are written: kinds, levels, and the setting that names them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log_levels.h"

static void verbose_is_for_all(void **state)
{
	static const int wanted[] = {
	    LEVEL_LOG, LEVEL_LOG, LEVEL_DEBUG, LEVEL_NOISE, LEVEL_TRACE, LEVEL_TRACE};
	struct log_levels levels;

	(void)state;
	for (int verbose = -1; verbose <= 4; verbose++) {
		log_levels_set_all(&levels, verbose);
		for (int kind = 0; kind < LOG_KINDS; kind++)
			assert_int_equal(levels.most[kind], wanted[verbose + 1]);
	}
}

static void a_list_names_kinds(void **state)
{
	struct log_levels levels;
	struct err err;

	(void)state;
	log_levels_set_all(&levels, 0);
	log_levels_set(&levels, KIND_STATS, LEVEL_WARNING);
	assert_int_equal(
	    log_levels_parse(&levels, " tls:trace,auth : off ,stats:log,", &err), 0);
	assert_int_equal(levels.most[LOG_INDEX_TLS], LEVEL_TRACE);
	assert_int_equal(levels.most[LOG_INDEX_AUTH], LEVEL_FATAL);
	assert_int_equal(levels.most[LOG_INDEX_STATS], LEVEL_LOG);
	assert_int_equal(levels.most[LOG_INDEX_DNS], LEVEL_LOG);
	assert_int_equal(log_levels_parse(&levels, NULL, &err), 0);
	assert_int_equal(log_levels_parse(NULL, "dns:error", &err), 0);
	assert_string_equal(
	    log_kind_name(LEVEL_DEBUG | KIND_POOLER_ERRORS), "pooler_errors");
}

static void refuses(const char *text, const char *wanted)
{
	struct log_levels levels;
	struct err err;

	assert_int_equal(log_levels_parse(&levels, text, &err), -1);
	if (!strstr(err.text, wanted))
		fail_msg("'%s' is not in '%s'", wanted, err.text);
}

static void others_are_refused(void **state)
{
	(void)state;
	refuses("dns", "'dns' should be kind:level, as in dns:debug");
	refuses("dns:debug, dsn:debug", "kind 'dsn' is unknown; known are: general, ");
	refuses("dns:loud", "level 'loud' is unknown; known are: off, error, ");
	refuses("dns:", "level '' is unknown");
	refuses(":debug", "kind '' is unknown");
	refuses("DNS:debug", "kind 'DNS' is unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(verbose_is_for_all),
	    cmocka_unit_test(a_list_names_kinds),
	    cmocka_unit_test(others_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
