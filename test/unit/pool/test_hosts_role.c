/*
 * target_session_attrs: which hosts are used, and what happens when roles change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/buf.h"
#include "hosts_fixture.h"
#include "pool/host_group.h"
#include "pool/pool_effective.h"

/* Clients ask at the same time; expects which hosts they get. */
static void expect_used(struct hosts_fixture *t, const char *names)
{
	struct pool_request requests[9];

	t->dialed[0] = '\0';
	for (size_t i = 0; i < 9; i++) {
		t->w.now += 100;
		hosts_fixture_ask(t, t->pool, &requests[i]);
		assert_non_null(requests[i].slot);
		assert_non_null(strstr(names, requests[i].slot->pool_host->host->name));
	}
	for (size_t i = 0; i < 9; i++)
		hosts_fixture_give(t, &requests[i]);
	for (size_t i = 0; i < 3; i++) {
		const struct host *host = hosts_fixture_host(t, i);
		bool is_used = strstr(names, host->name) != NULL;
		assert_true(is_used == (host->connections > 0));
		assert_true(is_used == hosts_may_serve(t->pool, host));
	}
}

static void each_value_uses_its_hosts(void **state)
{
	static const struct {
		const char *target, *standbys, *read_only, *dead, *used;
	} cases[] = {
	    {"any", "bc", "", "", "abc"},
	    {"read-write", "bc", "", "", "a"},
	    {"read-write", "bc", "", "b", "a"},
	    {"read-write", "ac", "", "", "b"},
	    {"read-write", "b", "a", "", "c"},
	    {"read-only", "b", "c", "", "bc"},
	    {"primary", "bc", "a", "", "a"},
	    {"primary", "ab", "", "", "c"},
	    {"standby", "bc", "", "", "bc"},
	    {"standby", "bc", "", "b", "c"},
	    {"prefer-standby", "bc", "", "", "bc"},
	    {"prefer-standby", "bc", "", "b", "c"},
	    {"prefer-standby", "bc", "", "bc", "a"},
	    /* one primary is in force, and writers may be among the clients */
	    {"prefer-standby", "", "z", "", "a"},
	};
	char keys[64];
	struct hosts_fixture t;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(
		    keys, sizeof(keys), "target_session_attrs=%s", cases[i].target);
		hosts_fixture_init(&t, keys, "");
		t.standbys = cases[i].standbys;
		t.read_only = cases[i].read_only;
		t.dead = cases[i].dead;
		expect_used(&t, cases[i].used);
		hosts_fixture_done(&t);
	}
}

static void no_host_fits_means_waiting(void **state)
{
	struct pool_request a, b;
	struct hosts_fixture t;
	struct buf why;

	(void)state;
	hosts_fixture_init(&t, "target_session_attrs=primary", "");
	t.standbys = "ab";
	t.dead = "c";
	hosts_fixture_ask(&t, t.pool, &a);
	assert_null(a.slot);
	/* the monitor knows, so that no pool tries */
	assert_string_equal(t.dialed, "");
	buf_init(&why, 0);
	hosts_describe_lack(t.pool, &why);
	assert_string_equal(buf_text(&why),
	    "no host of database \"d\" is primary: a:1 is unfit (it is a standby), "
	    "b:2 is unfit (it is a standby), c:3 is down (connect failed)");
	buf_done(&why);
	/* a client that comes later waits, too */
	hosts_fixture_ask(&t, t.pool, &b);
	assert_null(b.slot);
	assert_int_equal(t.pool->waiting.count, 2);
	assert_int_equal(t.refused, 0);
	struct verdict v = fixture_next(&t.w, t.pool, VERDICT_NONE);
	assert_true(v.wake_us == UINT64_MAX);
	t.standbys = "a";
	hosts_fixture_look(&t);
	hosts_fixture_serve(&t, t.pool);
	assert_non_null(a.slot);
	assert_string_equal(a.slot->pool_host->host->name, "b");
	hosts_fixture_give(&t, &a);
	hosts_fixture_give(&t, &b);
	hosts_fixture_done(&t);
}

/* Before the monitor's first word nobody who needs a role is served, because the host
 * that answers first may be an old primary. */
static void the_first_word_is_waited_for(void **state)
{
	static const char *const targets[] = {"read-only", "prefer-standby"};
	char keys[64];
	struct pool_request a;
	struct hosts_fixture t;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		snprintf(keys, sizeof(keys), "target_session_attrs=%s", targets[i]);
		hosts_fixture_init(&t, keys, "");
		t.standbys = "bc";
		t.is_blind = true;
		hosts_fixture_ask(&t, t.pool, &a);
		assert_null(a.slot);
		assert_string_equal(t.dialed, "");
		assert_true(t.is_hinted);
		/* that it has not tried them is no word */
		t.has_begun = true;
		hosts_fixture_look(&t);
		hosts_fixture_serve(&t, t.pool);
		assert_null(a.slot);
		assert_string_equal(t.dialed, "");
		t.is_blind = t.has_begun = false;
		hosts_fixture_look(&t);
		hosts_fixture_serve(&t, t.pool);
		assert_non_null(a.slot);
		hosts_fixture_give(&t, &a);
		hosts_fixture_done(&t);
	}
}

/* Of three hosts, none of which reports its role, a is the primary, and a client has a
 * server there. */
static void begin_writing(struct hosts_fixture *t, struct pool_request *request)
{
	hosts_fixture_init(t, "target_session_attrs=read-write", "");
	t->standbys = "bc";
	t->is_silent = true;
	hosts_fixture_ask(t, t->pool, request);
	assert_non_null(request->slot);
	assert_string_equal(t->dialed, "a");
}

/* When nobody needed the hosts, the monitor does not look, and its last word is old. */
static void an_old_word_does_not_count(void **state)
{
	struct pool_request a;
	struct hosts_fixture t;

	(void)state;
	begin_writing(&t, &a);
	struct slot *slot = a.slot;
	hosts_fixture_give(&t, &a);
	hosts_fixture_close(&t, slot);
	hosts_rest(t.pool->database);
	t.standbys = "ac";
	t.is_blind = true;
	hosts_fixture_ask(&t, t.pool, &a);
	assert_null(a.slot);
	assert_true(t.is_hinted);
	t.is_blind = false;
	hosts_fixture_serve(&t, t.pool);
	assert_non_null(a.slot);
	assert_string_equal(t.dialed, "ab");
	hosts_fixture_give(&t, &a);
	hosts_fixture_done(&t);
}

static void check_shown(
    struct hosts_fixture *t, int host, const char *state, const char *role)
{
	struct host_verdict v;

	hosts_show(t->pool->database, hosts_fixture_host(t, host), &v);
	assert_string_equal(host_group_state_shown(&v), state);
	assert_string_equal(host_group_report_shown(&v.value.report), role);
}

/* Connections to a host that has become a primary are closed as soon as they are given
 * back; the monitor is asked at once. */
static void a_reported_role_counts_at_once(void **state)
{
	struct pool_request a, b;
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "target_session_attrs=standby", "");
	t.standbys = "b";
	hosts_fixture_ask(&t, t.pool, &a);
	hosts_fixture_ask(&t, t.pool, &b);
	hosts_fixture_give(&t, &b);
	check_shown(&t, 0, "unfit", "primary");
	check_shown(&t, 1, "up", "standby");
	t.is_blind = true;
	struct host_report report = {.role = HOST_PRIMARY, .is_kept_posted = true};
	hosts_learn(a.slot, &report, t.w.now);
	assert_true(t.is_hinted);
	assert_true(fixture_was_scheduled(&t.w, t.pool));
	hosts_fixture_serve(&t, t.pool);
	assert_true(a.slot->dirty);
	assert_int_equal(hosts_fixture_host(&t, 1)->connections, 1);
	hosts_fixture_give(&t, &a);
	assert_int_equal(hosts_fixture_host(&t, 1)->connections, 0);
	t.standbys = "a";
	t.is_blind = false;
	hosts_fixture_look(&t);
	expect_used(&t, "a");
	hosts_fixture_done(&t);
}

/* The newest connection at the primary ends, which had got nothing yet.  As
 * soon as another host is the primary, clients go on there, whatever
 * server_login_retry says; also when the connection is lost after that. */
static void what_is_lost_at_an_old_primary_delays_nobody(void **state)
{
	(void)state;
	for (int is_late = 0; is_late < 2; is_late++) {
		struct pool_request a;
		struct hosts_fixture t;
		begin_writing(&t, &a);
		struct slot *slot = a.slot;
		for (int i = 0; i < 2; i++) {
			if (i == is_late) {
				pool_lose_unused(slot, t.w.now);
				pool_part(&a);
				hosts_fixture_close(&t, slot);
			}
			t.w.now += SECOND / 4;
			t.standbys = "ac";
			if (i == 0)
				hosts_fixture_look(&t);
		}
		hosts_fixture_ask(&t, t.pool, &a);
		assert_string_equal(t.dialed, "ab");
		assert_non_null(a.slot);
		hosts_fixture_give(&t, &a);
		hosts_fixture_done(&t);
	}
}

/* A host is promoted beside the primary, where clients fill the pool: others go on at
 * the new one at once.  While that one is down, nobody is disturbed. */
static void an_older_primary_takes_no_room(void **state)
{
	struct pool_request a, b;
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "target_session_attrs=read-write pool_size=1", "");
	t.standbys = "bc";
	t.timelines[0] = 1;
	hosts_fixture_ask(&t, t.pool, &a);
	hosts_fixture_ask(&t, t.pool, &b);
	assert_non_null(a.slot);
	assert_null(b.slot);
	t.standbys = "c";
	hosts_fixture_look(&t);
	hosts_fixture_serve(&t, t.pool);
	/* two primaries, of which nobody knows which is older */
	assert_null(b.slot);
	assert_false(hosts_is_lost(a.slot));
	t.timelines[1] = 2;
	t.pool->balance.has_lost = false;
	hosts_fixture_look(&t);
	assert_true(t.pool->balance.has_lost);
	assert_true(hosts_is_lost(a.slot));
	assert_int_equal(pool_count_in_use(t.pool), 0);
	t.dead = "b";
	hosts_fixture_look(&t);
	hosts_fixture_look(&t); /* that its connection was lost alone says nothing */
	assert_false(hosts_is_lost(a.slot));
	t.dead = "";
	hosts_fixture_look(&t);
	assert_true(hosts_is_lost(a.slot));
	struct slot *slot = a.slot;
	pool_orphan(slot, t.w.now);
	pool_part(&a);
	hosts_fixture_close(&t, slot);
	hosts_fixture_serve(&t, t.pool);
	assert_non_null(b.slot);
	assert_string_equal(b.slot->pool_host->host->name, "b");
	assert_false(hosts_is_lost(b.slot));
	hosts_fixture_give(&t, &b);
	hosts_fixture_done(&t);
}

/* An error of a server that does not report its role: the monitor is asked, once a
 * second at most. */
static void an_error_casts_doubt(void **state)
{
	struct pool_request a;
	struct hosts_fixture t;

	(void)state;
	begin_writing(&t, &a);
	t.w.now += SECOND;
	hosts_doubt(a.slot, t.w.now);
	assert_true(t.is_hinted);
	t.is_hinted = false;
	t.w.now += SECOND / 2;
	hosts_doubt(a.slot, t.w.now);
	assert_false(t.is_hinted);
	t.w.now += SECOND / 2;
	hosts_doubt(a.slot, t.w.now);
	assert_true(t.is_hinted);
	t.read_only = "a";
	hosts_fixture_serve(&t, t.pool);
	assert_true(a.slot->dirty);
	hosts_fixture_give(&t, &a);
	hosts_fixture_done(&t);
}

/* A user's own default_transaction_read_only does not change the role of the host. */
static void read_only_users_concern_themselves(void **state)
{
	struct pool_request a, b;
	struct buf why;
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(
	    &t, "target_session_attrs=read-write role_check_period=5", "");
	t.standbys = "bc";
	hosts_fixture_ask(&t, t.pool, &a);
	assert_non_null(a.slot);
	struct pool *other = fixture_pool(&t.w, "d", "reader");
	t.read_only_for_users = "a";
	hosts_fixture_ask(&t, other, &b);
	assert_null(b.slot);
	assert_true(hosts_may_serve(t.pool, hosts_fixture_host(&t, 0)));
	assert_false(hosts_may_serve(other, hosts_fixture_host(&t, 0)));
	assert_false(a.slot->dirty);
	buf_init(&why, 0);
	hosts_describe_lack(other, &why);
	assert_non_null(
	    strstr(buf_text(&why), "; a:1 is read-only for user \"reader\""));
	buf_done(&why);
	t.read_only_for_users = "";
	struct verdict v = fixture_next(&t.w, other, VERDICT_NONE);
	assert_true(v.wake_us == t.w.now + 5 * SECOND);
	t.w.now += 5 * SECOND;
	hosts_fixture_serve(&t, other);
	assert_non_null(b.slot);
	hosts_fixture_give(&t, &a);
	hosts_fixture_give(&t, &b);
	hosts_fixture_done(&t);
}

static void a_standby_that_comes_back_is_preferred(void **state)
{
	struct pool_request a;
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "target_session_attrs=prefer-standby", "");
	t.standbys = "bc";
	t.dead = "bc";
	hosts_fixture_ask(&t, t.pool, &a);
	assert_string_equal(a.slot->pool_host->host->name, "a");
	t.dead = "c";
	hosts_fixture_look(&t);
	hosts_fixture_serve(&t, t.pool);
	assert_true(a.slot->dirty);
	hosts_fixture_give(&t, &a);
	expect_used(&t, "b");
	hosts_fixture_done(&t);
}

/* Closes all connections. */
static void run_dry(struct hosts_fixture *t)
{
	for (size_t i = 0; i < SLOTS; i++) {
		if (t->slots[i].pool)
			hosts_fixture_close(t, &t->slots[i]);
	}
}

static void an_elected_host_is_used_alone(void **state)
{
	struct pool_request a;
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "", "server_login_retry=5\n");
	expect_used(&t, "abc");
	hosts_elect(t.pool->database, hosts_fixture_host(&t, 1));
	hosts_fixture_serve(&t, t.pool);
	expect_used(&t, "b");
	/* b is used until it fails */
	t.dead = "b";
	hosts_fixture_ask(&t, t.pool, &a);
	hosts_fixture_close(&t, a.slot);
	hosts_fixture_give(&t, &a);
	run_dry(&t);
	expect_used(&t, "ac");
	t.dead = "";
	hosts_fixture_look(&t);
	hosts_fixture_serve(&t, t.pool);
	expect_used(&t, "b");
	hosts_elect(t.pool->database, NULL);
	hosts_fixture_look(&t);
	assert_true(hosts_may_serve(t.pool, hosts_fixture_host(&t, 0)));
	hosts_fixture_done(&t);
}

/* A SWITCHOVER goes on at a host that the monitor knows to be up and a primary. */
static void a_successor_has_the_role(void **state)
{
	static const char *const targets[] = {"any", "primary", "read-write"};
	char keys[64];
	struct hosts_fixture t;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		snprintf(keys, sizeof(keys), "target_session_attrs=%s", targets[i]);
		hosts_fixture_init(&t, keys, "");
		t.standbys = "a";
		t.dead = "c";
		assert_false(
		    hosts_is_successor(t.pool->database, hosts_fixture_host(&t, 1)));
		hosts_fixture_look(&t);
		assert_false(
		    hosts_is_successor(t.pool->database, hosts_fixture_host(&t, 0)));
		assert_true(
		    hosts_is_successor(t.pool->database, hosts_fixture_host(&t, 1)));
		assert_false(
		    hosts_is_successor(t.pool->database, hosts_fixture_host(&t, 2)));
		hosts_fixture_done(&t);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_value_uses_its_hosts),
	    cmocka_unit_test(no_host_fits_means_waiting),
	    cmocka_unit_test(the_first_word_is_waited_for),
	    cmocka_unit_test(an_old_word_does_not_count),
	    cmocka_unit_test(a_reported_role_counts_at_once),
	    cmocka_unit_test(what_is_lost_at_an_old_primary_delays_nobody),
	    cmocka_unit_test(an_older_primary_takes_no_room),
	    cmocka_unit_test(an_error_casts_doubt),
	    cmocka_unit_test(read_only_users_concern_themselves),
	    cmocka_unit_test(a_standby_that_comes_back_is_preferred),
	    cmocka_unit_test(an_elected_host_is_used_alone),
	    cmocka_unit_test(a_successor_has_the_role),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
