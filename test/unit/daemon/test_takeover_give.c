/* When a process gives nothing away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/daemon.h"
#include "daemon/takeover.h"
#include "handoff/record.h"

/* What the reload brings would change what was offered. */
static void nothing_during_a_reload(void **state)
{
	struct daemon d = {.reloads.phase = RELOAD_READING};
	struct err err;
	int fd;

	(void)state;
	assert_int_equal(takeover_give(&d.site, NULL, RECORD_FORMAT, &fd, &err), -1);
	assert_string_equal(err.text, "a RELOAD is under way");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_during_a_reload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
