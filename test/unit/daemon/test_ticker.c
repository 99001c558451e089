/* The log line of statistics, as log parsers know it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/ticker.h"

static void the_line(void **state)
{
	const struct stats average = {
	    .xact_count = 1,
	    .query_count = 2,
	    .client_parse_count = 3,
	    .server_parse_count = 4,
	    .bind_count = 5,
	    .client_login_count = 6,
	    .bytes_received = 7,
	    .bytes_sent = 8,
	    .xact_time_us = 9,
	    .query_time_us = 10,
	    .wait_time_us = 18446744073709551615u,
	};
	char line[TICKER_LINE];

	(void)state;
	ticker_stats_line(&average, "us", line);
	assert_string_equal(line,
	    "stats: 1 xacts/s, 2 queries/s, 3 client parses/s, 4 server parses/s, "
	    "5 binds/s, 6 client logins/s, in 7 B/s, out 8 B/s, xact 9 us, query 10 "
	    "us, "
	    "wait 18446744073709551615 us");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
