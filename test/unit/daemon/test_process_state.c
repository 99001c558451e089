/* When a shutdown is complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/process_state.h"

static void nobody_left(void **state)
{
	struct site site = {.shutdown = SHUTDOWN_NONE};

	(void)state;
	list_init(&site.clients);
	list_init(&site.login_clients);
	assert_null(process_state_exit_reason(&site));
	site.shutdown = SHUTDOWN_WAIT_FOR_CLIENTS;
	assert_string_equal(
	    process_state_exit_reason(&site), "client connections dropped, exiting");
	site.shutdown = SHUTDOWN_WAIT_FOR_SERVERS;
	assert_string_equal(
	    process_state_exit_reason(&site), "server connections dropped, exiting");
}

static void each_waits_for_its_own(void **state)
{
	struct site site = {.shutdown = SHUTDOWN_WAIT_FOR_CLIENTS};
	struct node client = {NULL, NULL};

	(void)state;
	list_init(&site.clients);
	list_init(&site.login_clients);
	site.server_count = 1;
	assert_non_null(process_state_exit_reason(&site));
	list_push_back(&site.clients, &client);
	assert_null(process_state_exit_reason(&site));

	site.shutdown = SHUTDOWN_WAIT_FOR_SERVERS;
	assert_null(process_state_exit_reason(&site));
	site.server_count = 0;
	assert_non_null(process_state_exit_reason(&site));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nobody_left),
	    cmocka_unit_test(each_waits_for_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
