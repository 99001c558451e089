/*
 * Lines about strangers are limited, however many addresses they have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "session/log_flood.h"

enum { MOST = 2, PLACES = 1024, ADDRESSES = 5000 };

static struct config config;
static struct catalog catalog;
static struct site site;

static int set_up(void **state)
{
	struct err err;

	(void)state;
	config.settings.log_lines_per_address = MOST;
	catalog.config = &config;
	site.catalog = &catalog;
	site.log = log_new();
	log_quiet(site.log, true);
	mem_init(&site.mem);
	site.loop = loop_new(&site.mem, &err);
	site.log_flood = log_flood_new();
	return site.loop ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	log_flood_free(&site.log_flood);
	loop_free(&site.loop);
	log_free(&site.log);
	return 0;
}

static bool is_written(unsigned address)
{
	struct sock_addr from = {.family = AF_INET};

	memcpy(from.ip, &address, sizeof(address));
	return !log_flood_holds(&site, &from, "closing because: %s");
}

static void each_address_has_its_lines(void **state)
{
	unsigned written = 0;

	(void)state;
	for (int i = 0; i < 100; i++)
		written += is_written((unsigned)i % 5);
	assert_int_equal(written, 5 * MOST);
}

static void all_addresses_have_a_bound(void **state)
{
	unsigned written = 0;

	(void)state;
	for (unsigned i = 0; i < 4 * ADDRESSES; i++)
		written += is_written(i % ADDRESSES);
	assert_in_range(written, MOST, PLACES * MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		each_address_has_its_lines, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(
		all_addresses_have_a_bound, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
