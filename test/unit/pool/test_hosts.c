/*
 * Several hosts of one database: which one is next, which one is not used, and when it
 * is used again.
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

#include "hosts_fixture.h"
#include "pool/hosts_role.h"

enum { CLIENTS = 10000 };

/* Clients come, ask once and leave; `at_a_time` of them are there at a time. */
static void run_clients(struct hosts_fixture *t, size_t count, size_t at_a_time)
{
	struct pool_request requests[16] = {{.pool = NULL}};

	assert_true(at_a_time <= 16);
	for (size_t i = 0; i < count + at_a_time; i++) {
		struct pool_request *a = &requests[i % at_a_time];
		t->w.now += 100;
		if (a->pool)
			hosts_fixture_give(t, a);
		if (i < count)
			hosts_fixture_ask(t, t->pool, a);
	}
}

static void expect_shares(
    struct hosts_fixture *t, unsigned clients, const unsigned *percent)
{
	for (size_t i = 0; i < 3; i++) {
		long part =
		    (long)(hosts_fixture_host(t, i)->assignments * 1000 / clients);
		assert_in_range(part, percent[i] * 10 - (percent[i] ? 20 : 0),
		    percent[i] * 10 + 20);
	}
}

static void clients_are_shared_by_weight(void **state)
{
	static const unsigned percent[] = {60, 20, 20};
	static const struct {
		const char *keys, *settings;
		size_t at_a_time;
	} cases[] = {
	    {"weight=3,1,1", "", 1},
	    {"weight=3,1,1", "", 7},
	    {"weight=3,1,1", "pool_mode=session\nserver_reset_query=\n", 4},
	    {"weight=3,1,1", "pool_mode=session\n", 4},
	    {"weight=3,1,1", "pool_mode=statement\n", 4},
	    {"weight=3,1,1", "server_round_robin=1\n", 4},
	    {"weight=3,1,1", "default_pool_size=1\n", 1},
	    {"weight=3,1,1", "default_pool_size=2\n", 8},
	    {"weight=3,1,1", "default_pool_size=4\nmax_db_connections=4\n", 8},
	    {"weight=3,1,1 load_balance_hosts=random", "", 1},
	    {"weight=3,1,1 load_balance_hosts=random", "", 7},
	    {"weight=3,1,1 load_balance_hosts=least-connections", "", 1},
	};
	struct hosts_fixture t;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		hosts_fixture_init(&t, cases[i].keys, cases[i].settings);
		run_clients(&t, CLIENTS, cases[i].at_a_time);
		expect_shares(&t, CLIENTS, percent);
		/* idle servers are lent again; not every client needs a dial */
		assert_in_range(t.dials, 1, CLIENTS / 50);
		hosts_fixture_done(&t);
	}
}

enum { COLD_CLIENTS = 20, COLD_TURNS = 1000, XACT_US = 2000 };

/* Clients who come at once to a pool without servers, and do one transaction after the
 * other. */
struct cold {
	struct hosts_fixture t;
	struct pool_request requests[COLD_CLIENTS];
	uint64_t until_us[COLD_CLIENTS]; /* of the transaction; 0: none */
	unsigned turns;                  /* transactions done */
};

static void follow_verdicts(struct cold *c)
{
	struct verdict v;

	while ((v = pool_next(c->t.pool, c->t.w.now)).kind != VERDICT_NONE) {
		if (v.kind == VERDICT_DIAL)
			(void)hosts_fixture_begin_dial(&c->t, c->t.pool);
		if (v.kind == VERDICT_RETIRE)
			hosts_fixture_close(&c->t, v.slot);
	}
}

/* login_us: how long a login takes at each host. */
static void end_logins(struct cold *c, const uint64_t *login_us)
{
	struct slot *slot;

	for (size_t i = 0; i < SLOTS; i++) {
		slot = &c->t.slots[i];
		if (!slot->pool || slot->state != SLOT_LOGIN)
			continue;
		int host = slot->pool_host->host->port - 1;
		if (c->t.w.now >= slot->born_us + login_us[host])
			hosts_fixture_end_dial(&c->t, slot);
	}
}

static void live(struct cold *c, struct pool_request *request, uint64_t *until_us)
{
	uint64_t now = c->t.w.now;

	if (request->slot && !*until_us)
		*until_us = now + XACT_US;
	if (request->slot && now < *until_us)
		return;
	if (request->slot) {
		c->turns++;
		struct verdict v = pool_give(request->slot, now);
		if (v.kind == VERDICT_RETIRE)
			hosts_fixture_close(&c->t, v.slot);
	}
	*until_us = 0;
	if (request->state == REQUEST_RESTING && !request->slot)
		(void)pool_ask(request, REQUEST_QUERY, now);
}

/* login_us: how long a login takes at each host. */
static void run_cold(struct cold *c, const char *settings, const uint64_t *login_us)
{
	hosts_fixture_init(&c->t, "weight=3,1,1", settings);
	for (size_t n = 0; n < COLD_CLIENTS; n++)
		fixture_join(c->t.pool, &c->requests[n]);
	for (; c->turns < COLD_TURNS; c->t.w.now += 100) {
		end_logins(c, login_us);
		for (size_t n = 0; n < COLD_CLIENTS; n++)
			live(c, &c->requests[n], &c->until_us[n]);
		follow_verdicts(c);
	}
}

static void end_cold(struct cold *c)
{
	for (size_t n = 0; n < COLD_CLIENTS; n++)
		hosts_fixture_give(&c->t, &c->requests[n]);
	hosts_fixture_done(&c->t);
}

/* Also the first transactions are shared by weight, though a login takes as long as
 * several of them, and longer at one host than at another. */
static void a_cold_pool_shares_by_weight(void **state)
{
	static const unsigned percent[] = {60, 20, 20};
	static const uint64_t login_us[][3] = {
	    {5000, 5000, 5000}, {3000, 5000, 8000}, {8000, 5000, 3000}};
	static const char *const settings[] = {
	    "", "default_pool_size=10\n", "default_pool_size=5\n"};

	(void)state;
	for (size_t i = 0; i < 9; i++) {
		struct cold c = {.turns = 0};
		run_cold(&c, settings[i % 3], login_us[i / 3]);
		expect_shares(&c.t, c.turns, percent);
		end_cold(&c);
	}
}

/* Clients that another host serves during a login are no reason for a further
 * connection to the host of the login, and none for closing one. */
static void slow_logins_open_no_further_connections(void **state)
{
	static const uint64_t times_us[] = {1000, 40000, 160000};

	(void)state;
	for (size_t i = 0; i < 27; i++) {
		uint64_t login_us[] = {
		    times_us[i / 9], times_us[i / 3 % 3], times_us[i % 3]};
		struct cold c = {.turns = 0};
		run_cold(&c, "default_pool_size=5\n", login_us);
		assert_int_equal(c.t.dials, 5);
		assert_int_equal(hosts_fixture_host(&c.t, 0)->connections, 3);
		assert_int_equal(hosts_fixture_host(&c.t, 1)->connections, 1);
		assert_int_equal(hosts_fixture_host(&c.t, 2)->connections, 1);
		end_cold(&c);
	}
}

/* The balance counts all pools of a database, though each pool has only one client. */
static void pools_share_by_weight(void **state)
{
	static const unsigned percent[] = {60, 20, 20};
	struct pool_request a;
	char user[16];
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "weight=3,1,1", "");
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(user, sizeof(user), "u%u", i);
		struct pool *pool = fixture_pool(&t.w, "d", user);
		t.w.now += 100;
		hosts_fixture_ask(&t, pool, &a);
		struct slot *slot = a.slot;
		hosts_fixture_give(&t, &a);
		hosts_fixture_close(&t, slot);
	}
	expect_shares(&t, 1000, percent);
	hosts_fixture_done(&t);
}

static void least_connections_looks_at_those_in_use(void **state)
{
	struct pool_request requests[8];
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "load_balance_hosts=least-connections weight=1,1,2", "");
	for (size_t i = 0; i < 8; i++)
		hosts_fixture_ask(&t, t.pool, &requests[i]);
	assert_int_equal(hosts_fixture_host(&t, 0)->connections, 2);
	assert_int_equal(hosts_fixture_host(&t, 1)->connections, 2);
	assert_int_equal(hosts_fixture_host(&t, 2)->connections, 4);
	/* the first host has no connections; its past assignments do not count */
	for (size_t i = 0; i < 8; i++) {
		if (requests[i].slot->pool_host->host != hosts_fixture_host(&t, 0))
			continue;
		for (int n = 0; n < 10; n++) {
			hosts_fixture_give(&t, &requests[i]);
			hosts_fixture_ask(&t, t.pool, &requests[i]);
			assert_ptr_equal(requests[i].slot->pool_host->host,
			    hosts_fixture_host(&t, 0));
		}
	}
	for (size_t i = 0; i < 8; i++)
		hosts_fixture_give(&t, &requests[i]);
	hosts_fixture_done(&t);
}

static void last_used_first_within_a_host(void **state)
{
	struct pool_request requests[6];
	struct slot *slots[6];
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "", "");
	for (size_t i = 0; i < 6; i++) {
		hosts_fixture_ask(&t, t.pool, &requests[i]);
		slots[i] = requests[i].slot;
	}
	assert_string_equal(t.dialed, "abcabc");
	assert_int_equal(slots[1]->pool_host->host->port, 2);
	for (size_t i = 0; i < 6; i++)
		hosts_fixture_give(&t, &requests[i]);
	for (size_t i = 0; i < 6; i++) {
		hosts_fixture_ask(&t, t.pool, &requests[i]);
		assert_ptr_equal(requests[i].slot, slots[i < 3 ? i + 3 : i - 3]);
	}
	for (size_t i = 0; i < 6; i++)
		hosts_fixture_give(&t, &requests[i]);
	hosts_fixture_done(&t);
}

static void disable_stays_until_failure(void **state)
{
	struct pool_request requests[4];
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "load_balance_hosts=disable weight=1,1,5", "");
	hosts_fixture_ask(&t, t.pool, &requests[0]);
	hosts_fixture_ask(&t, t.pool, &requests[1]);
	assert_string_equal(t.dialed, "aa");
	t.dead = "ab";
	hosts_fixture_ask(&t, t.pool, &requests[2]);
	/* the next host is tried at once, without waiting for server_login_retry */
	assert_string_equal(t.dialed, "aaabc");
	t.dead = "";
	t.w.now += 1000 * (uint64_t)SECOND;
	hosts_fixture_ask(&t, t.pool, &requests[3]);
	assert_string_equal(t.dialed, "aaabcc");
	for (size_t i = 0; i < 4; i++)
		hosts_fixture_give(&t, &requests[i]);
	hosts_fixture_done(&t);
}

static void a_host_that_fails_is_left_out(void **state)
{
	struct pool_request requests[3];
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "", "server_login_retry=10\n");
	t.dead = "a";
	t.is_blind = true;
	hosts_fixture_ask(&t, t.pool, &requests[0]);
	assert_non_null(requests[0].slot);
	assert_string_equal(t.dialed, "ab");
	assert_false(t.pool->failure.kind);
	struct host *a = hosts_fixture_host(&t, 0);
	assert_true(a->is_down);
	assert_int_equal(a->failures, 1);
	assert_string_equal(a->last_error, "connect failed");
	/* until the monitor has looked, which is soon */
	assert_true(t.is_hinted);
	assert_int_equal(a->retry_us, t.w.now + SECOND);
	hosts_fixture_ask(&t, t.pool, &requests[1]);
	hosts_fixture_ask(&t, t.pool, &requests[2]);
	assert_string_equal(t.dialed, "abcb");
	/* other pools of the database know that the host is down */
	struct pool_request other;
	hosts_fixture_ask(&t, fixture_pool(&t.w, "d", "other"), &other);
	assert_string_equal(t.dialed, "abcbc");
	hosts_fixture_give(&t, &other);
	for (size_t i = 0; i < 3; i++)
		hosts_fixture_give(&t, &requests[i]);
	hosts_fixture_done(&t);
}

/* Nobody tries a host that the monitor knows to be down.  When it is back, it gets its
 * usual share, and no more. */
static void a_host_that_comes_back_gets_its_share(void **state)
{
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "", "server_login_retry=10\nserver_idle_timeout=0\n");
	t.dead = "a";
	run_clients(&t, 30, 1);
	struct host *a = hosts_fixture_host(&t, 0);
	assert_int_equal(a->failures, 1);
	assert_true(a->is_down);
	for (int i = 0; i < 20; i++) {
		t.w.now += 10 * (uint64_t)SECOND;
		run_clients(&t, 30, 3);
	}
	assert_int_equal(a->failures, 1);
	t.dead = "";
	hosts_fixture_look(&t);
	assert_false(a->is_down);
	uint64_t before = hosts_fixture_host(&t, 1)->assignments;
	run_clients(&t, 300, 3);
	assert_in_range(a->assignments, 70, 120);
	assert_in_range(hosts_fixture_host(&t, 1)->assignments - before, 90, 130);
	hosts_fixture_done(&t);
}

/* A host does not answer: its clients go elsewhere, and it is used when it answers. */
static void a_slow_login_is_not_waited_for(void **state)
{
	struct pool_request a, b;
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "", "");
	fixture_join(t.pool, &a);
	fixture_ask(&t.w, &a, VERDICT_WAIT);
	fixture_next(&t.w, t.pool, VERDICT_DIAL);
	struct slot *slow = hosts_fixture_begin_dial(&t, t.pool);
	struct verdict v = fixture_next(&t.w, t.pool, VERDICT_NONE);
	assert_true(v.wake_us == t.w.now + SECOND / 5);
	t.w.now += SECOND / 5;
	hosts_fixture_serve(&t, t.pool);
	assert_non_null(a.slot);
	assert_string_equal(a.slot->pool_host->host->name, "b");
	assert_int_equal(hosts_fixture_host(&t, 0)->slow_logins, 1);
	/* no client waits for that host any more */
	hosts_fixture_ask(&t, fixture_pool(&t.w, "d", "other"), &b);
	assert_non_null(b.slot);
	assert_string_equal(b.slot->pool_host->host->name, "c");
	hosts_fixture_end_dial(&t, slow);
	assert_int_equal(hosts_fixture_host(&t, 0)->slow_logins, 0);
	assert_true(hosts_may_serve(t.pool, hosts_fixture_host(&t, 0)));
	hosts_fixture_give(&t, &a);
	hosts_fixture_give(&t, &b);
	/* or the slow login fails */
	t.dead = "a";
	hosts_fixture_close(&t, slow);
	fixture_join(t.pool, &a);
	slow = NULL;
	for (size_t i = 0; i < SLOTS && !slow; i++) {
		if (t.slots[i].pool == t.pool)
			hosts_fixture_close(&t, &t.slots[i]);
	}
	hosts_fixture_host(&t, 0)->turns = 0;
	fixture_ask(&t.w, &a, VERDICT_WAIT);
	fixture_next(&t.w, t.pool, VERDICT_DIAL);
	slow = hosts_fixture_begin_dial(&t, t.pool);
	assert_string_equal(slow->pool_host->host->name, "a");
	t.w.now += SECOND / 5;
	hosts_fixture_serve(&t, t.pool);
	assert_non_null(a.slot);
	hosts_fixture_end_dial(&t, slow);
	assert_true(hosts_fixture_host(&t, 0)->is_down);
	assert_int_equal(hosts_fixture_host(&t, 0)->slow_logins, 0);
	hosts_fixture_give(&t, &a);
	hosts_fixture_done(&t);
}

/* A slow login keeps no client from hosts that are up, also in a full pool, and may end
 * without a result. */
static void a_slow_login_takes_no_room(void **state)
{
	struct pool_request requests[3];
	struct hosts_fixture t;

	(void)state;
	for (int ends = 0; ends < 2; ends++) {
		hosts_fixture_init(&t, "", "default_pool_size=2\n");
		t.is_blind = true;
		fixture_join(t.pool, &requests[0]);
		fixture_ask(&t.w, &requests[0], VERDICT_WAIT);
		fixture_next(&t.w, t.pool, VERDICT_DIAL);
		struct slot *slow = hosts_fixture_begin_dial(&t, t.pool);
		t.w.now += SECOND / 5;
		hosts_fixture_serve(&t, t.pool);
		hosts_fixture_ask(&t, t.pool, &requests[1]);
		assert_non_null(requests[0].slot);
		assert_non_null(requests[1].slot);
		assert_int_equal(pool_server_count(t.pool), 3);
		if (ends)
			hosts_fixture_end_dial(&t, slow);
		else
			hosts_fixture_close(&t, slow);
		assert_int_equal(t.pool->balance.slow_logins, 0);
		assert_int_equal(hosts_fixture_host(&t, 0)->slow_logins, 0);
		/* one connection too many goes as soon as it is idle */
		hosts_fixture_serve(&t, t.pool);
		assert_int_equal(pool_connected_count(t.pool), 2);
		hosts_fixture_give(&t, &requests[0]);
		hosts_fixture_give(&t, &requests[1]);
		hosts_fixture_done(&t);
	}
}

static void check_all_down(const char *keys)
{
	struct pool_request a;
	struct hosts_fixture t;

	hosts_fixture_init(&t, keys, "server_login_retry=10\n");
	t.dead = "abc";
	hosts_fixture_ask(&t, t.pool, &a);
	assert_null(a.slot);
	assert_int_equal(strlen(t.dialed), 3);
	for (size_t i = 0; i < 3; i++)
		assert_non_null(strchr(t.dialed, "abc"[i]));
	assert_true(t.pool->failure.kind);
	/* whoever has to be tried nevertheless is the one that is due first */
	assert_non_null(hosts_next(t.pool));
	assert_null(hosts_find(&t.pool->database->hosts, "z", 1));
	/* the monitor's next word is waited for, also by a host that clients lack */
	t.pool->balance.wanted = 1;
	struct verdict v = fixture_next(&t.w, t.pool, VERDICT_NONE);
	assert_int_equal(t.pool->balance.wanted, 0);
	assert_true(v.wake_us == UINT64_MAX);
	t.dead = "ac";
	hosts_fixture_look(&t);
	assert_true(fixture_was_scheduled(&t.w, t.pool));
	hosts_fixture_serve(&t, t.pool);
	assert_non_null(a.slot);
	assert_string_equal(t.dialed + 3, "b");
	assert_false(t.pool->failure.kind);
	hosts_fixture_give(&t, &a);
	hosts_fixture_done(&t);
}

static void all_down_is_waited_for(void **state)
{
	(void)state;
	check_all_down("");
	check_all_down("load_balance_hosts=random");
	check_all_down("load_balance_hosts=disable");
}

/* A wrong password does not mark the host as down, but the next one is tried.  When all
 * refuse, the client is told. */
static void a_refused_login_leaves_the_host_up(void **state)
{
	struct pool_request a;
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "", "");
	fixture_join(t.pool, &a);
	fixture_ask(&t.w, &a, VERDICT_WAIT);
	for (size_t i = 0; i < 3; i++) {
		fixture_next(&t.w, t.pool, VERDICT_DIAL);
		struct slot *slot = hosts_fixture_begin_dial(&t, t.pool);
		assert_ptr_equal(slot->pool_host->host, hosts_fixture_host(&t, i));
		pool_dial_failed(slot, DIAL_LOGIN, "wrong password", "28P01", t.w.now);
		hosts_fixture_close(&t, slot);
		assert_false(hosts_fixture_host(&t, i)->is_down);
		assert_int_equal(hosts_fixture_host(&t, i)->failures, 0);
	}
	assert_true(t.pool->failure.kind);
	fixture_next(&t.w, t.pool, VERDICT_REFUSE);
	pool_part(&a);
	hosts_fixture_done(&t);
}

static void what_is_known_outlives_a_reload(void **state)
{
	struct pool_request a;
	struct hosts_fixture t;

	(void)state;
	hosts_fixture_init(&t, "", "");
	t.dead = "a";
	hosts_fixture_ask(&t, t.pool, &a);
	struct host *down = hosts_fixture_host(&t, 0),
		    *lent = hosts_fixture_host(&t, 1);
	assert_ptr_equal(a.slot->pool_host->host, lent);
	fixture_adopt(&t.w, "[databases]\nd=host=x,a port=7,1\n[pgbouncer]\n", NULL);
	assert_ptr_equal(hosts_fixture_host(&t, 1), down);
	assert_true(down->is_down);
	assert_string_equal(hosts_fixture_host(&t, 0)->name, "x");
	/* when its last connection closes, the record of the removed host is freed */
	assert_false(lent->is_listed);
	assert_int_equal(lent->connections, 1);
	struct slot *slot = a.slot;
	assert_int_equal(pool_give(slot, t.w.now).kind, VERDICT_RETIRE);
	hosts_fixture_close(&t, slot);
	pool_part(&a);
	pool_free_if_unused(t.pool);
	for (size_t i = 0; i < 3; i++)
		host_watch_done(&t.watches[i]);
	host_group_done(&t.group);
	fixture_done(&t.w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(clients_are_shared_by_weight),
	    cmocka_unit_test(a_cold_pool_shares_by_weight),
	    cmocka_unit_test(slow_logins_open_no_further_connections),
	    cmocka_unit_test(pools_share_by_weight),
	    cmocka_unit_test(least_connections_looks_at_those_in_use),
	    cmocka_unit_test(last_used_first_within_a_host),
	    cmocka_unit_test(disable_stays_until_failure),
	    cmocka_unit_test(a_host_that_fails_is_left_out),
	    cmocka_unit_test(a_host_that_comes_back_gets_its_share),
	    cmocka_unit_test(a_slow_login_is_not_waited_for),
	    cmocka_unit_test(a_slow_login_takes_no_room),
	    cmocka_unit_test(all_down_is_waited_for),
	    cmocka_unit_test(a_refused_login_leaves_the_host_up),
	    cmocka_unit_test(what_is_known_outlives_a_reload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
