/*
 * What a decision about a database's hosts tells: each piece of news once.  (Which
 * hosts are used is the matter of prop_hosts and test_hosts_role.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pool/host_group.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

enum { COUNT = 2 };

static const uint64_t second_us = 1000000;

struct scene {
	struct host_watch watches[COUNT];
	struct host_group group;
	uint64_t now_us;
};

static void scene_open(struct scene *s)
{
	const struct host_group_rules rules = {.target = TARGET_READ_WRITE};
	struct host_watch *list[COUNT] = {&s->watches[0], &s->watches[1]};

	memset(s, 0, sizeof(*s));
	s->now_us = 100 * second_us;
	for (int i = 0; i < COUNT; i++)
		host_watch_init(&s->watches[i], "localhost", 5432 + i);
	host_group_init(&s->group);
	host_group_adopt(&s->group, &rules, list, COUNT);
	host_group_begin(&s->group, s->now_us);
}

static void scene_close(struct scene *s)
{
	host_group_done(&s->group);
	for (int i = 0; i < COUNT; i++)
		host_watch_done(&s->watches[i]);
}

static void is_found(struct scene *s, int i, enum host_state state, enum host_role role)
{
	s->watches[i].value.state = state;
	s->watches[i].value.report =
	    (struct host_report){.role = role, .timeline = 1, .at_us = s->now_us};
}

static struct host_change decide(struct scene *s)
{
	struct host_change change;
	uint64_t wake_us = UINT64_MAX;

	host_group_decide(&s->group, s->now_us, &change, &wake_us);
	return change;
}

static void second_primary_that_flickers_is_told_once(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s);
	is_found(&s, 0, HOST_UP, HOST_PRIMARY);
	is_found(&s, 1, HOST_UP, HOST_PRIMARY);
	assert_true(decide(&s).is_split);
	for (int i = 0; i < 30; i++) {
		s.now_us += second_us;
		is_found(&s, 1, i % 3 ? HOST_UP : HOST_DOWN, HOST_PRIMARY);
		assert_false(decide(&s).is_split);
	}
	is_found(&s, 1, HOST_DOWN, HOST_PRIMARY);
	assert_false(decide(&s).is_split);
	s.now_us += 10 * second_us;
	assert_false(decide(&s).is_split);
	is_found(&s, 0, HOST_UP, HOST_PRIMARY);
	is_found(&s, 1, HOST_UP, HOST_PRIMARY);
	assert_true(decide(&s).is_split);
	scene_close(&s);
}

/* Hosts that are all served alike may each have a cluster of its own, as the segments
 * of a sharded one. */
static void primaries_that_are_served_alike_are_no_news(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s);
	s.group.rules.target = TARGET_ANY;
	is_found(&s, 0, HOST_UP, HOST_PRIMARY);
	is_found(&s, 1, HOST_UP, HOST_PRIMARY);
	assert_false(decide(&s).is_split);
	scene_close(&s);
}

/* At a planned change the new primary may be heard of before the old one is asked
 * again. */
static void second_primary_counts_when_both_have_answered_since(void **state)
{
	(void)state;
	struct scene s;
	struct host_change change;
	uint64_t wake_us = UINT64_MAX;

	scene_open(&s);
	is_found(&s, 0, HOST_UP, HOST_PRIMARY);
	is_found(&s, 1, HOST_UP, HOST_STANDBY);
	assert_false(decide(&s).is_split);
	s.now_us += second_us / 10;
	is_found(&s, 1, HOST_UP, HOST_PRIMARY);
	host_group_decide(&s.group, s.now_us, &change, &wake_us);
	assert_false(change.is_split);
	assert_true(wake_us <= s.now_us + second_us / 4);
	s.now_us += second_us / 10;
	is_found(&s, 0, HOST_DOWN, HOST_ROLE_UNKNOWN);
	assert_false(decide(&s).is_split);
	/* the old one comes back as a second primary */
	s.now_us += second_us;
	is_found(&s, 0, HOST_UP, HOST_PRIMARY);
	assert_false(decide(&s).is_split);
	s.now_us += second_us / 10;
	is_found(&s, 1, HOST_UP, HOST_PRIMARY);
	assert_true(decide(&s).is_split);
	/* one whose role cannot be asked does not answer anew */
	scene_close(&s);
	scene_open(&s);
	is_found(&s, 0, HOST_UP, HOST_PRIMARY);
	strcpy(s.watches[0].value.unasked, "permission denied");
	decide(&s);
	s.now_us += second_us;
	is_found(&s, 1, HOST_UP, HOST_PRIMARY);
	assert_true(decide(&s).is_split);
	scene_close(&s);
}

/* The process that was taken over knew the primary; this one has asked nobody yet. */
static void nothing_is_lost_before_it_was_tried(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s);
	host_group_restore(&s.group, &s.watches[0], 1);
	assert_false(decide(&s).is_lost);
	is_found(&s, 0, HOST_UP, HOST_PRIMARY);
	assert_false(decide(&s).is_back);
	is_found(&s, 0, HOST_DOWN, HOST_PRIMARY);
	assert_true(decide(&s).is_lost);
	is_found(&s, 0, HOST_UP, HOST_PRIMARY);
	s.now_us += 3 * second_us;
	struct host_change change = decide(&s);
	assert_true(change.is_back);
	assert_int_equal(change.lacked_us, 3 * second_us);
	scene_close(&s);
}

/* Hosts none of which serves when they are tried for the first time. */
static void first_look_finds_nothing(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s);
	is_found(&s, 0, HOST_DOWN, HOST_ROLE_UNKNOWN);
	assert_false(decide(&s).is_lost);
	is_found(&s, 1, HOST_REFUSES, HOST_ROLE_UNKNOWN);
	assert_true(decide(&s).is_lost);
	assert_false(decide(&s).is_lost);
	scene_close(&s);
}

/* Clients are refused and leave at once, so that nobody needs the hosts between them.
 */
static void hosts_that_are_needed_again_and_again(void **state)
{
	(void)state;
	struct scene s;
	int told = 0;

	scene_open(&s);
	is_found(&s, 0, HOST_DOWN, HOST_ROLE_UNKNOWN);
	is_found(&s, 1, HOST_REFUSES, HOST_ROLE_UNKNOWN);
	for (int i = 0; i < 30; i++) {
		told += decide(&s).is_lost;
		host_group_rest(&s.group);
		s.now_us += second_us;
		host_group_begin(&s.group, s.now_us);
	}
	assert_int_equal(told, 3);
	is_found(&s, 0, HOST_UP, HOST_PRIMARY);
	assert_false(decide(&s).is_back);
	scene_close(&s);
}

/* Both answer, and the standby lacks what the primary has written since it was at 100.
 */
static uint64_t lag_after(struct scene *s, uint64_t seconds, uint64_t position)
{
	s->now_us += seconds * second_us;
	is_found(s, 0, HOST_UP, HOST_PRIMARY);
	is_found(s, 1, HOST_UP, HOST_STANDBY);
	s->watches[0].value.report.position = position;
	s->watches[1].value.report.position = 100;
	host_group_note(&s->group, &s->watches[0]);
	decide(s);
	return s->group.members[1].verdict.lag_us;
}

/* A primary that has gone writes nothing more, so that its standby, which may lack the
 * last bytes for ever, goes on serving readers. */
static void nobody_falls_behind_a_primary_that_is_down(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s);
	lag_after(&s, 0, 100);
	assert_int_equal(lag_after(&s, 1, 200), 0);
	assert_int_equal(lag_after(&s, 2, 200), 2 * second_us);
	is_found(&s, 0, HOST_DOWN, HOST_ROLE_UNKNOWN);
	s.now_us += 60 * second_us;
	s.watches[1].value.report.at_us = s.now_us;
	decide(&s);
	assert_int_equal(s.group.members[1].verdict.lag_us, 2 * second_us);
	assert_int_equal(s.group.members[1].verdict.lag_bytes, 100);
	scene_close(&s);
}

/* Clients that come now and then must not be sent to a standby that is behind, as if it
 * had fallen behind when they came. */
static void lag_is_remembered_while_nobody_needs_the_hosts(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s);
	lag_after(&s, 0, 100);
	lag_after(&s, 1, 200);
	host_group_rest(&s.group);
	s.now_us += 60 * second_us;
	host_group_begin(&s.group, s.now_us);
	assert_int_equal(lag_after(&s, 0, 300), 60 * second_us);
	scene_close(&s);
}

/* It was restored, or a crash has lost what no standby ever got. */
static void a_primary_that_goes_back_makes_nobody_lag(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s);
	lag_after(&s, 0, 900);
	lag_after(&s, 1, 900);
	assert_int_equal(lag_after(&s, 1, 900), second_us);
	assert_int_equal(lag_after(&s, 1, 100), 0);
	assert_int_equal(s.group.members[1].verdict.lag_bytes, 0);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(second_primary_that_flickers_is_told_once),
	    cmocka_unit_test(primaries_that_are_served_alike_are_no_news),
	    cmocka_unit_test(second_primary_counts_when_both_have_answered_since),
	    cmocka_unit_test(nothing_is_lost_before_it_was_tried),
	    cmocka_unit_test(first_look_finds_nothing),
	    cmocka_unit_test(hosts_that_are_needed_again_and_again),
	    cmocka_unit_test(nobody_falls_behind_a_primary_that_is_down),
	    cmocka_unit_test(lag_is_remembered_while_nobody_needs_the_hosts),
	    cmocka_unit_test(a_primary_that_goes_back_makes_nobody_lag),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
