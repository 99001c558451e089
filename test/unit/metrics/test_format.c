/*
 * Which format a header Accept asks for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "metrics/writer.h"

#define PROTOBUF                                                                   \
	"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;" \
	"encoding=delimited"

static void test_choice(void **state)
{
	(void)state;
	assert_int_equal(writer_choose_format(NULL), FORMAT_TEXT);
	assert_int_equal(writer_choose_format(""), FORMAT_TEXT);
	assert_int_equal(writer_choose_format("text/html, */*;q=0.8"), FORMAT_TEXT);
	assert_int_equal(
	    writer_choose_format("Application/OpenMetrics-Text"), FORMAT_OPENMETRICS);
	assert_int_equal(writer_choose_format(PROTOBUF), FORMAT_TEXT);
}

static void test_quality(void **state)
{
	(void)state;
	assert_int_equal(
	    writer_choose_format("text/plain;version=0.0.4;q=0.5, "
				 "application/openmetrics-text; version=1.0.0 ; "
				 "q=0.75"),
	    FORMAT_OPENMETRICS);
	assert_int_equal(writer_choose_format(PROTOBUF
			     ";q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,"
			     "text/plain;q=0.3,*/*;q=0.2"),
	    FORMAT_OPENMETRICS);
	assert_int_equal(
	    writer_choose_format("application/openmetrics-text;q=0"), FORMAT_TEXT);
	assert_int_equal(
	    writer_choose_format("application/openmetrics-text;q=nonsense"),
	    FORMAT_TEXT);
	assert_int_equal(
	    writer_choose_format("text/plain,application/openmetrics-text"),
	    FORMAT_TEXT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_choice),
	    cmocka_unit_test(test_quality),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
