/*
 * When the only host of its databases is asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/host_watch.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

enum { S = 1000000 };

static const struct host_policy lone = {
    .period_us = 5 * S, .hung_us = 2 * S, .is_wanted = true, .is_lone = true};

static enum watch_step step(struct host_watch *w, bool is_busy, uint64_t now_us)
{
	struct host_policy policy = lone;
	uint64_t wake_us = UINT64_MAX;

	policy.is_urgent = is_busy;
	return host_watch_next(w, &policy, now_us, &wake_us);
}

static void answer(struct host_watch *w, uint64_t now_us)
{
	const struct host_report report = {.role = HOST_PRIMARY};

	host_watch_connected(w, now_us);
	assert_int_equal(step(w, false, now_us), WATCH_ASK);
	host_watch_answered(w, &report, "", now_us);
	assert_int_equal(step(w, false, now_us), WATCH_CLOSE);
	assert_int_equal(step(w, false, now_us), WATCH_NOTHING);
}

/* Servers that send something make questions needless; the connection is not kept. */
static void a_lone_host_is_asked_when_its_servers_are_silent(void **state)
{
	struct host_watch w;
	uint64_t now_us = 100 * S;

	(void)state;
	host_watch_init(&w, "a", 5432);
	for (int i = 0; i < 20; i++, now_us += S) {
		host_watch_alive(&w, now_us);
		assert_int_equal(w.value.state, HOST_UP);
		assert_int_equal(step(&w, i % 2, now_us), WATCH_NOTHING);
	}
	now_us += 3 * S; /* four seconds of silence at rest */
	assert_int_equal(step(&w, false, now_us), WATCH_NOTHING);
	assert_int_equal(step(&w, false, now_us + S), WATCH_CONNECT);
	answer(&w, now_us + S);
	host_watch_done(&w);
}

/* A long query: one question after a second, and then one in a period. */
static void a_long_query_is_asked_for_once_in_a_period(void **state)
{
	struct host_watch w;

	(void)state;
	host_watch_init(&w, "a", 5432);
	host_watch_alive(&w, 100 * S);
	assert_int_equal(step(&w, true, 101 * S - 1), WATCH_NOTHING);
	assert_int_equal(step(&w, true, 101 * S), WATCH_CONNECT);
	answer(&w, 101 * S);
	assert_int_equal(step(&w, true, 105 * S), WATCH_NOTHING);
	assert_int_equal(step(&w, true, 106 * S), WATCH_CONNECT);
	host_watch_done(&w);
}

/* It hangs until something is heard of it; it is down until it lets somebody in. */
static void a_lone_host_that_fails(void **state)
{
	struct host_watch w;

	(void)state;
	host_watch_init(&w, "a", 5432);
	host_watch_alive(&w, 100 * S);
	assert_int_equal(step(&w, true, 101 * S), WATCH_CONNECT);
	assert_int_equal(step(&w, true, 103 * S), WATCH_CLOSE);
	assert_int_equal(w.value.state, HOST_HANGS);
	assert_string_equal(w.value.reason, "no answer for 2 seconds");
	assert_int_equal(step(&w, true, 104 * S), WATCH_CONNECT);
	host_watch_alive(&w, 104 * S);
	assert_int_equal(w.value.state, HOST_UP);
	assert_int_equal(step(&w, false, 104 * S), WATCH_NOTHING);

	host_watch_hint(&w);
	assert_int_equal(step(&w, false, 105 * S), WATCH_CONNECT);
	host_watch_failed(&w, WATCH_LOST, "Connection refused", 105 * S);
	host_watch_alive(&w, 105 * S);
	assert_int_equal(w.value.state, HOST_DOWN);
	assert_int_equal(step(&w, false, 106 * S), WATCH_CONNECT);
	answer(&w, 106 * S);
	assert_int_equal(w.value.state, HOST_UP);
	host_watch_done(&w);
}

/* The monitor cannot log in, but clients' servers tell what the host is. */
static void a_host_that_refuses_the_monitor(void **state)
{
	const struct host_report report = {.role = HOST_STANDBY};
	struct host_watch w;

	(void)state;
	host_watch_init(&w, "a", 5432);
	host_watch_failed(&w, WATCH_NO_LOGIN, "no password", 100 * S);
	assert_int_equal(w.value.state, HOST_NOT_TRIED);
	assert_string_equal(w.value.unasked, "no password");
	host_watch_heard(&w, &report, 101 * S);
	assert_int_equal(w.value.state, HOST_UP);
	assert_int_equal(w.value.report.role, HOST_STANDBY);
	host_watch_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_lone_host_is_asked_when_its_servers_are_silent),
	    cmocka_unit_test(a_long_query_is_asked_for_once_in_a_period),
	    cmocka_unit_test(a_lone_host_that_fails),
	    cmocka_unit_test(a_host_that_refuses_the_monitor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
