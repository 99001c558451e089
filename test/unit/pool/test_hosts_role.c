/*
 * target_session_attrs: which hosts are used, when roles are checked, and what happens
 * when they change.
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
#include "town.h"

/* Clients ask at the same time; expects which hosts they get. */
static void expect_used(struct town *t, const char *names)
{
	struct ask asks[9];

	t->dialed[0] = '\0';
	for (size_t i = 0; i < 9; i++) {
		t->w.now += 100;
		town_ask(t, t->pool, &asks[i]);
		assert_non_null(asks[i].seat);
		assert_non_null(strstr(names, asks[i].seat->share->host->name));
	}
	for (size_t i = 0; i < 9; i++)
		town_give(t, &asks[i]);
	for (size_t i = 0; i < 3; i++) {
		const struct host *host = town_host(t, i);
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
	    {"prefer-standby", "", "z", "", "abc"},
	};
	char keys[64];
	struct town t;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(
		    keys, sizeof(keys), "target_session_attrs=%s", cases[i].target);
		town_init(&t, keys, "");
		t.standbys = cases[i].standbys;
		t.read_only = cases[i].read_only;
		t.dead = cases[i].dead;
		expect_used(&t, cases[i].used);
		town_done(&t);
	}
}

static void no_host_fits_means_waiting(void **state)
{
	struct ask a, b;
	struct town t;

	(void)state;
	town_init(&t, "target_session_attrs=primary role_check_period=5",
	    "server_login_retry=20\n");
	t.standbys = "ab";
	t.dead = "c";
	town_ask(&t, t.pool, &a);
	assert_null(a.seat);
	assert_string_equal(t.dialed, "abc");
	assert_string_equal(t.pool->refusal,
	    "no host of database \"d\" is primary: a:1 is standby, b:2 is standby, "
	    "c:3 is down (connect failed)");
	/* a client that comes later waits, too */
	town_ask(&t, t.pool, &b);
	assert_null(b.seat);
	assert_int_equal(t.pool->waiting.count, 2);
	assert_int_equal(t.refused, 0);
	/* roles are checked sooner than dead hosts are tried again */
	struct verdict v = world_next(&t.w, t.pool, VERDICT_NONE);
	assert_true(v.wake_us == t.w.now + 5 * SECOND);
	t.standbys = "a";
	t.w.now += 5 * SECOND;
	town_serve(&t, t.pool);
	assert_non_null(a.seat);
	assert_string_equal(a.seat->share->host->name, "b");
	town_give(&t, &a);
	town_give(&t, &b);
	town_done(&t);
}

/* A standby is promoted: a probe notices it, and connections to a host that has become
 * a standby are closed as soon as they are given back. */
static void roles_are_looked_at_in_the_background(void **state)
{
	struct ask a, b;
	struct town t;

	(void)state;
	town_init(&t, "target_session_attrs=standby role_check_period=5", "");
	t.standbys = "b";
	town_ask(&t, t.pool, &a);
	town_ask(&t, t.pool, &b);
	town_give(&t, &b);
	assert_string_equal(
	    hosts_state_shown(t.pool->database, town_host(&t, 0)), "unfit");
	assert_string_equal(host_role_shown(town_host(&t, 0)), "primary");
	assert_string_equal(
	    hosts_state_shown(t.pool->database, town_host(&t, 1)), "up");
	unsigned dials = t.dials;
	t.w.now += 4 * SECOND;
	assert_int_equal(pool_next(t.pool, t.w.now).kind, VERDICT_NONE);
	t.standbys = "a";
	t.w.now += SECOND;
	/* no client asks for a server */
	town_serve(&t, t.pool);
	assert_in_range(t.dials - dials, 1, 2);
	assert_string_equal(
	    hosts_state_shown(t.pool->database, town_host(&t, 0)), "up");
	/* b reports that it is not a standby any more */
	struct host_report report = {.role = HOST_PRIMARY, .is_kept_posted = true};
	hosts_learn(a.seat, &report, t.w.now);
	assert_true(world_was_kicked(&t.w, t.pool));
	town_serve(&t, t.pool);
	assert_true(a.seat->is_dirty);
	assert_int_equal(town_host(&t, 1)->connections, 1);
	town_give(&t, &a);
	assert_int_equal(town_host(&t, 1)->connections, 0);
	expect_used(&t, "a");
	town_done(&t);
}

static void without_clients_nobody_looks(void **state)
{
	struct ask a;
	struct town t;

	(void)state;
	town_init(&t, "target_session_attrs=primary", "");
	t.standbys = "bc";
	town_ask(&t, t.pool, &a);
	struct verdict v = world_next(&t.w, t.pool, VERDICT_NONE);
	assert_true(v.wake_us <= t.w.now + 5 * SECOND);
	town_give(&t, &a);
	v = world_next(&t.w, t.pool, VERDICT_NONE);
	assert_true(v.wake_us == UINT64_MAX);
	town_done(&t);
}

/* Roles that servers do not report are asked again, beside the pool's size. */
static void silent_servers_are_asked_again(void **state)
{
	struct ask a;
	struct town t;

	(void)state;
	town_init(&t, "target_session_attrs=read-write role_check_period=5",
	    "default_pool_size=1\n");
	t.standbys = "bc";
	t.is_silent = true;
	town_ask(&t, t.pool, &a);
	/* the other hosts are checked as well, though no client needs them */
	assert_int_equal(strlen(t.dialed), 3);
	assert_true(strchr(t.dialed, 'b') && strchr(t.dialed, 'c'));
	t.w.now += 5 * SECOND;
	town_serve(&t, t.pool);
	assert_string_equal(t.dialed + 3, "abc");
	/* host a reports that it cannot write: its role is checked soon */
	t.w.now += 2 * SECOND;
	hosts_doubt(a.seat, t.w.now);
	assert_true(world_was_kicked(&t.w, t.pool));
	t.read_only = "a";
	town_serve(&t, t.pool);
	assert_string_equal(t.dialed + 6, "a");
	assert_true(a.seat->is_dirty);
	town_give(&t, &a);
	town_done(&t);
}

/* A user's own default_transaction_read_only does not change the role of the host. */
static void read_only_users_concern_themselves(void **state)
{
	struct ask a, b;
	struct town t;

	(void)state;
	town_init(&t, "target_session_attrs=read-write role_check_period=5", "");
	t.standbys = "bc";
	town_ask(&t, t.pool, &a);
	assert_non_null(a.seat);
	struct pool *other = world_pool(&t.w, "d", "reader");
	t.read_only = "a";
	town_ask(&t, other, &b);
	assert_null(b.seat);
	assert_true(hosts_may_serve(t.pool, town_host(&t, 0)));
	assert_false(hosts_may_serve(other, town_host(&t, 0)));
	assert_false(a.seat->is_dirty);
	t.read_only = "";
	t.w.now += 5 * SECOND;
	town_serve(&t, other);
	assert_non_null(b.seat);
	town_give(&t, &a);
	town_give(&t, &b);
	town_done(&t);
}

static void the_second_pass_ends_with_a_standby(void **state)
{
	struct ask a;
	struct town t;

	(void)state;
	town_init(&t, "target_session_attrs=prefer-standby", "server_login_retry=5\n");
	t.standbys = "bc";
	t.dead = "bc";
	town_ask(&t, t.pool, &a);
	assert_string_equal(a.seat->share->host->name, "a");
	t.dead = "c";
	t.w.now += 5 * SECOND;
	town_serve(&t, t.pool);
	assert_int_equal(town_host(&t, 1)->state, REACH_UP);
	assert_true(a.seat->is_dirty);
	town_give(&t, &a);
	expect_used(&t, "b");
	town_done(&t);
}

/* Closes all connections. */
static void run_dry(struct town *t)
{
	for (size_t i = 0; i < SEATS; i++) {
		if (t->seats[i].pool)
			town_close(t, &t->seats[i]);
	}
}

static void an_elected_host_is_used_alone(void **state)
{
	struct ask a;
	struct town t;

	(void)state;
	town_init(&t, "", "server_login_retry=5\n");
	expect_used(&t, "abc");
	hosts_elect(t.pool->database, town_host(&t, 1));
	town_serve(&t, t.pool);
	expect_used(&t, "b");
	/* b is used until it fails */
	t.dead = "b";
	town_ask(&t, t.pool, &a);
	town_close(&t, a.seat);
	town_give(&t, &a);
	run_dry(&t);
	expect_used(&t, "ac");
	t.dead = "";
	t.w.now += 5 * SECOND;
	town_ask(&t, t.pool, &a);
	town_give(&t, &a);
	expect_used(&t, "b");
	hosts_elect(t.pool->database, NULL);
	assert_true(hosts_may_serve(t.pool, town_host(&t, 0)));
	town_done(&t);
}

/* While clients are paused for a SWITCHOVER no client is served, and each host is
 * checked again and again. */
static void a_paused_pool_looks_at_hosts_for_a_switchover(void **state)
{
	struct ask a, b;
	struct town t;

	(void)state;
	town_init(&t, "target_session_attrs=primary", "");
	t.standbys = "bc";
	town_ask(&t, t.pool, &a);
	t.pool->database->paused = t.pool->database->is_switching =
	    t.pool->database->is_scouting = true;
	t.dialed[0] = '\0';
	town_serve(&t, t.pool);
	assert_string_equal(t.dialed, "");
	town_give(&t, &a);
	assert_string_equal(t.dialed, "abc");
	t.standbys = "a";
	t.dead = "c";
	world_join(t.pool, &b);
	world_ask(&t.w, &b, VERDICT_WAIT);
	t.w.now += SECOND / 5;
	town_serve(&t, t.pool);
	assert_string_equal(t.dialed, "abcabc");
	assert_null(b.seat);
	assert_int_equal(pool_server_count(t.pool), 0);
	assert_false(hosts_is_successor(t.pool->database, town_host(&t, 0)));
	assert_true(hosts_is_successor(t.pool->database, town_host(&t, 1)));
	assert_false(hosts_is_successor(t.pool->database, town_host(&t, 2)));
	hosts_elect(t.pool->database, town_host(&t, 1));
	t.pool->database->paused = t.pool->database->is_switching = false;
	town_serve(&t, t.pool);
	assert_non_null(b.seat);
	assert_string_equal(b.seat->share->host->name, "b");
	town_give(&t, &b);
	town_done(&t);
}

/* Under a full limit it looks when there is room: one at rest of another pool makes
 * some, and one in use is waited for. */
static void a_look_needs_room(void **state)
{
	struct ask a, b;
	struct town t;

	(void)state;
	town_init(&t, "target_session_attrs=primary",
	    "max_server_connections=1\n[databases]\ne=host=e\n");
	struct pool *other = world_pool(&t.w, "e", "u");
	t.standbys = "bc";
	town_ask(&t, t.pool, &a);
	t.pool->database->paused = t.pool->database->is_switching = true;
	town_give(&t, &a);
	town_ask(&t, other, &b);
	assert_non_null(b.seat);
	t.pool->database->is_scouting = true;
	t.dialed[0] = '\0';
	struct verdict v = world_next(&t.w, t.pool, VERDICT_NONE);
	assert_true(v.wake_us > t.w.now && v.wake_us < UINT64_MAX);
	assert_int_equal(t.w.c->server_count, 1);
	pool_give(b.seat, t.w.now);
	/* The only server of a pool is left to it for a moment after its use. */
	world_next(&t.w, t.pool, VERDICT_NONE);
	t.w.now += SECOND;
	town_serve(&t, t.pool);
	assert_string_equal(t.dialed, "abc");
	assert_int_equal(pool_server_count(other), 0);
	assert_int_equal(t.w.c->server_count, 0);
	pool_part(&b);
	town_done(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_value_uses_its_hosts),
	    cmocka_unit_test(no_host_fits_means_waiting),
	    cmocka_unit_test(roles_are_looked_at_in_the_background),
	    cmocka_unit_test(without_clients_nobody_looks),
	    cmocka_unit_test(silent_servers_are_asked_again),
	    cmocka_unit_test(read_only_users_concern_themselves),
	    cmocka_unit_test(the_second_pass_ends_with_a_standby),
	    cmocka_unit_test(an_elected_host_is_used_alone),
	    cmocka_unit_test(a_paused_pool_looks_at_hosts_for_a_switchover),
	    cmocka_unit_test(a_look_needs_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
