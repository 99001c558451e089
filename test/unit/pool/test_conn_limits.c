/*
 * max_server_connections: how pools that have nothing else in common share the servers
 * of the process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "pool/conn_limits.h"
#include "pool/pins.h"
#include "pool_fixture.h"

enum { SLOTS = 6, REQUESTS = 12 };

/* Pools a, b and c of three databases. */
struct limits_fixture {
	struct fixture w;
	struct pool *a, *b, *c;
	struct slot slots[SLOTS];
	struct pool_request requests[REQUESTS];
};

static void begin(struct limits_fixture *r, const char *settings)
{
	char ini[512];

	memset(r, 0, sizeof(*r));
	snprintf(ini, sizeof(ini),
	    "[databases]\na=\nb=min_pool_size=1\nc=\n[pgbouncer]\n"
	    "pool_mode=transaction\nserver_check_query=\n%s",
	    settings);
	fixture_init(&r->w, ini);
	r->a = fixture_pool(&r->w, "a", "u1");
	r->b = fixture_pool(&r->w, "b", "u2");
	r->c = fixture_pool(&r->w, "c", "u3");
}

static void end(struct limits_fixture *r)
{
	for (int i = 0; i < SLOTS; i++)
		pool_gone(&r->slots[i], r->w.now);
	for (int i = 0; i < REQUESTS; i++)
		pool_part(&r->requests[i]);
	assert_int_equal(central_read(&r->w.c->limit->servers), 0);
	fixture_done(&r->w);
}

/* A client comes and gets a new server. */
static void take(struct limits_fixture *r, struct pool *pool, int slot, int request)
{
	fixture_join(pool, &r->requests[request]);
	fixture_ask(&r->w, &r->requests[request], VERDICT_WAIT);
	fixture_dial(&r->w, pool, &r->slots[slot], VERDICT_GRANT);
}

static void give(struct limits_fixture *r, int slot)
{
	fixture_give(&r->w, &r->slots[slot], VERDICT_REST);
	r->w.now++;
}

/* A client comes and waits; *limit is the value of the limit it waits for. */
static const char *want(
    struct limits_fixture *r, struct pool *pool, int request, int *limit)
{
	if (!r->requests[request].pool)
		fixture_join(pool, &r->requests[request]);
	fixture_ask(&r->w, &r->requests[request], VERDICT_WAIT);
	fixture_next(&r->w, pool, VERDICT_NONE);
	return conn_limits_lacked(pool, limit);
}

static void evict(struct limits_fixture *r, struct pool *pool, int slot)
{
	struct verdict v = fixture_next(&r->w, pool, VERDICT_RETIRE);

	assert_ptr_equal(v.slot, &r->slots[slot]);
	assert_string_equal(v.text, "evicted");
	pool_gone(&r->slots[slot], r->w.now);
}

/* A client that waits is told the limit's name and value. */
static void the_process_is_full(void **state)
{
	struct limits_fixture r;
	int limit = 0;

	(void)state;
	begin(&r, "max_server_connections=2\n");
	take(&r, r.a, 0, 0);
	take(&r, r.c, 1, 1);
	assert_null(conn_limits_lacked(r.a, &limit));
	assert_string_equal(want(&r, r.a, 2, &limit), "max_server_connections");
	assert_int_equal(limit, 2);
	assert_string_equal(want(&r, r.b, 3, &limit), "max_server_connections");
	/* A server of its own pool serves the client as well. */
	fixture_was_scheduled(&r.w, r.a);
	assert_ptr_equal(
	    fixture_give(&r.w, &r.slots[0], VERDICT_GRANT).request, &r.requests[2]);
	assert_null(conn_limits_lacked(r.a, &limit));
	/* Without the limit there is room at once. */
	fixture_set(&r.w, "max_server_connections", "0");
	assert_true(fixture_was_scheduled(&r.w, r.b));
	fixture_dial(&r.w, r.b, &r.slots[2], VERDICT_GRANT);
	end(&r);
}

/* The pool with the most servers closes idle ones. */
static void the_richest_gives_first(void **state)
{
	struct limits_fixture r;

	(void)state;
	begin(&r, "max_server_connections=4\n");
	take(&r, r.c, 0, 0);
	take(&r, r.a, 1, 1);
	take(&r, r.a, 2, 2);
	take(&r, r.a, 3, 3);
	/* The idle server of c is the oldest. */
	for (int i = 0; i < 4; i++)
		give(&r, i);
	fixture_join(r.b, &r.requests[4]);
	fixture_ask(&r.w, &r.requests[4], VERDICT_WAIT);
	evict(&r, r.b, 1);
	fixture_dial(&r.w, r.b, &r.slots[1], VERDICT_GRANT);
	fixture_join(r.b, &r.requests[5]);
	fixture_ask(&r.w, &r.requests[5], VERDICT_WAIT);
	evict(&r, r.b, 2);
	fixture_dial(&r.w, r.b, &r.slots[2], VERDICT_GRANT);
	end(&r);
}

/* A pool that has a server must wait before it may evict below min_pool_size. */
static void the_least_size_is_kept(void **state)
{
	struct limits_fixture r;
	int limit;

	(void)state;
	begin(&r, "max_server_connections=2\n");
	take(&r, r.b, 0, 0);
	take(&r, r.a, 1, 1);
	give(&r, 0);
	uint64_t since = r.w.now;
	assert_non_null(want(&r, r.a, 2, &limit));
	r.w.now += 4 * (uint64_t)SECOND;
	assert_int_equal(fixture_next(&r.w, r.a, VERDICT_NONE).wake_us,
	    since + 5 * (uint64_t)SECOND);
	/* A pool that has no server need not wait. */
	fixture_join(r.c, &r.requests[3]);
	fixture_ask(&r.w, &r.requests[3], VERDICT_WAIT);
	evict(&r, r.c, 0);
	fixture_dial(&r.w, r.c, &r.slots[0], VERDICT_GRANT);
	/* b refills min_pool_size, but not with room that clients wait for. */
	assert_int_equal(
	    fixture_next(&r.w, r.b, VERDICT_NONE).wake_us, r.w.now + SECOND);
	pool_withdraw(&r.requests[2]);
	fixture_next(&r.w, r.a, VERDICT_NONE);
	give(&r, 0);
	r.w.now += SECOND;
	evict(&r, r.b, 0);
	fixture_dial(&r.w, r.b, &r.slots[0], VERDICT_REST);
	/* After five seconds b's server is evicted. */
	assert_non_null(want(&r, r.a, 2, &limit));
	r.w.now += 5 * (uint64_t)SECOND;
	evict(&r, r.a, 0);
	fixture_dial(&r.w, r.a, &r.slots[0], VERDICT_GRANT);
	end(&r);
}

/* A pool that has servers does not evict another's only one that was used just now. */
static void the_only_one_is_left_for_a_moment(void **state)
{
	struct limits_fixture r;

	(void)state;
	begin(&r, "max_server_connections=2\n");
	take(&r, r.a, 0, 0);
	take(&r, r.c, 1, 1);
	fixture_join(r.a, &r.requests[2]);
	fixture_ask(&r.w, &r.requests[2], VERDICT_WAIT);
	fixture_next(&r.w, r.a, VERDICT_NONE);
	fixture_was_scheduled(&r.w, r.a);
	uint64_t rested = r.w.now;
	give(&r, 1);
	assert_true(fixture_was_scheduled(&r.w, r.a));
	assert_int_equal(
	    fixture_next(&r.w, r.a, VERDICT_NONE).wake_us, rested + 200000);
	assert_ptr_equal(
	    fixture_ask(&r.w, &r.requests[1], VERDICT_GRANT).slot, &r.slots[1]);
	give(&r, 1);
	r.w.now += 200000;
	evict(&r, r.a, 1);
	fixture_dial(&r.w, r.a, &r.slots[1], VERDICT_GRANT);
	end(&r);
}

/* A busy pool passes on free servers: to pools without any, then by waiting time. */
static void nobody_starves(void **state)
{
	struct limits_fixture r;
	int limit;

	(void)state;
	begin(&r, "max_server_connections=2\n");
	take(&r, r.a, 0, 0);
	take(&r, r.a, 1, 1);
	assert_non_null(want(&r, r.a, 2, &limit));
	assert_non_null(want(&r, r.a, 3, &limit));
	r.w.now += SECOND;
	assert_non_null(want(&r, r.c, 4, &limit));
	r.w.now += SECOND;
	fixture_was_scheduled(&r.w, r.c);
	/* Clients of a have waited longer, but c has no server. */
	struct verdict v = fixture_give(&r.w, &r.slots[0], VERDICT_RETIRE);
	assert_string_equal(v.text, "evicted");
	assert_true(fixture_was_scheduled(&r.w, r.c));
	pool_gone(&r.slots[0], r.w.now);
	fixture_next(&r.w, r.a, VERDICT_NONE);
	fixture_dial(&r.w, r.c, &r.slots[0], VERDICT_GRANT);
	/* c's last server is evicted for a client that waited so much longer. */
	r.w.now += 6 * (uint64_t)SECOND;
	fixture_join(r.c, &r.requests[5]);
	fixture_ask(&r.w, &r.requests[5], VERDICT_WAIT);
	fixture_next(&r.w, r.c, VERDICT_NONE);
	assert_ptr_equal(
	    fixture_give(&r.w, &r.slots[1], VERDICT_GRANT).request, &r.requests[2]);
	assert_string_equal(
	    fixture_give(&r.w, &r.slots[0], VERDICT_RETIRE).text, "evicted");
	pool_gone(&r.slots[0], r.w.now);
	assert_true(fixture_was_scheduled(&r.w, r.a));
	fixture_dial(&r.w, r.a, &r.slots[0], VERDICT_GRANT);
	end(&r);
}

/* A pool that lacks room under two limits waits for one after the other at first. After
 * a second the room under one is left to it while it waits for the other, but only for
 * a moment at a time. */
static void two_limits_at_once(void **state)
{
	struct limits_fixture r;
	int limit;

	(void)state;
	begin(&r, "max_db_connections=1\n[users]\nu1=max_user_connections=1\n");
	struct pool *of_database = fixture_pool(&r.w, "a", "u2");
	struct pool *of_user = fixture_pool(&r.w, "b", "u1");
	take(&r, of_database, 0, 0);
	take(&r, of_user, 1, 1);
	assert_string_equal(want(&r, r.a, 2, &limit), "max_user_connections");
	r.w.now += SECOND / 2;
	want(&r, of_user, 3, &limit);
	fixture_give(&r.w, &r.slots[1], VERDICT_RETIRE);
	pool_gone(&r.slots[1], r.w.now);
	fixture_next(&r.w, r.a, VERDICT_NONE);
	assert_string_equal(conn_limits_lacked(r.a, &limit), "max_db_connections");
	fixture_dial(&r.w, of_user, &r.slots[1], VERDICT_GRANT);
	r.w.now += SECOND / 2;
	fixture_next(&r.w, r.a, VERDICT_NONE);
	want(&r, of_user, 1, &limit);
	r.w.now += SECOND / 10;
	fixture_give(&r.w, &r.slots[1], VERDICT_RETIRE);
	pool_gone(&r.slots[1], r.w.now);
	fixture_next(&r.w, r.a, VERDICT_NONE);
	assert_string_equal(conn_limits_lacked(r.a, &limit), "max_db_connections");
	fixture_next(&r.w, of_user, VERDICT_NONE);
	/* a tenth of the time that the client of a has waited */
	r.w.now += SECOND / 10;
	fixture_next(&r.w, of_user, VERDICT_NONE);
	r.w.now += SECOND / 10;
	fixture_dial(&r.w, of_user, &r.slots[1], VERDICT_GRANT);
	/* The next time both limits have room in time. */
	want(&r, of_user, 3, &limit);
	r.w.now += SECOND / 10;
	fixture_give(&r.w, &r.slots[1], VERDICT_RETIRE);
	pool_gone(&r.slots[1], r.w.now);
	fixture_next(&r.w, of_user, VERDICT_NONE);
	give(&r, 0);
	evict(&r, r.a, 0);
	fixture_dial(&r.w, r.a, &r.slots[0], VERDICT_GRANT);
	end(&r);
}

/* When a pool's next client needs a connection of its own, the pool may come before
 * others.  It looks for room at once, and who was the first does so from then on. */
static void who_comes_first_changes(void **state)
{
	struct limits_fixture r;
	int limit;

	(void)state;
	begin(&r, "max_server_connections=2\n");
	take(&r, r.a, 0, 0);
	take(&r, r.b, 1, 1);
	assert_non_null(want(&r, r.a, 2, &limit));
	fixture_join(r.a, &r.requests[3]);
	pool_ask(&r.requests[3], REQUEST_REPLICATION, ++r.w.now);
	fixture_next(&r.w, r.a, VERDICT_NONE);
	r.w.now++;
	assert_non_null(want(&r, r.c, 4, &limit));
	fixture_was_scheduled(&r.w, NULL);
	fixture_give(&r.w, &r.slots[0], VERDICT_GRANT);
	assert_true(r.a->is_scheduled && r.c->is_scheduled);
	assert_int_equal(
	    fixture_next(&r.w, r.c, VERDICT_NONE).wake_us, r.w.now + SECOND / 5);
	end(&r);
}

/* The pool's first client is served, and the next one waits for a connection of its
 * own, for which the pool has another place: it looks for room at once, although the
 * pool comes first as before and others of its clients still wait. */
static void a_replication_client_becomes_the_first(void **state)
{
	struct limits_fixture r;
	int limit;

	(void)state;
	begin(&r, "max_server_connections=2\n");
	take(&r, r.a, 0, 0);
	take(&r, r.b, 1, 1);
	assert_non_null(want(&r, r.a, 2, &limit));
	fixture_join(r.a, &r.requests[3]);
	pool_ask(&r.requests[3], REQUEST_REPLICATION, ++r.w.now);
	fixture_next(&r.w, r.a, VERDICT_NONE);
	assert_non_null(want(&r, r.a, 4, &limit));
	fixture_was_scheduled(&r.w, NULL);
	assert_ptr_equal(
	    fixture_give(&r.w, &r.slots[0], VERDICT_GRANT).request, &r.requests[2]);
	assert_true(fixture_was_scheduled(&r.w, r.a));
	end(&r);
}

/* A limit lowered at run time closes idle servers at once, others when idle. */
static void a_lower_limit_counts_at_once(void **state)
{
	struct limits_fixture r;

	(void)state;
	begin(&r, "");
	for (int i = 0; i < 4; i++)
		take(&r, i < 2 ? r.a : r.c, i, i);
	give(&r, 0);
	give(&r, 2);
	fixture_set(&r.w, "max_server_connections", "1");
	for (int i = 0; i < 2; i++) {
		struct verdict v = fixture_next(&r.w, r.b, VERDICT_RETIRE);
		assert_string_equal(v.text, conn_limits_surplus_reason);
		pool_gone(v.slot, r.w.now);
	}
	fixture_next(&r.w, r.b, VERDICT_NONE);
	fixture_ask(&r.w, &r.requests[2], VERDICT_WAIT);
	struct verdict v = fixture_give(&r.w, &r.slots[3], VERDICT_RETIRE);
	assert_string_equal(v.text, conn_limits_surplus_reason);
	give(&r, 1);
	end(&r);
}

/* A server that carries a cancel request does not count. */
static void cancels_do_not_count(void **state)
{
	struct limits_fixture r;

	(void)state;
	begin(&r, "max_server_connections=1\n");
	pool_dialing_cancel(r.a, &r.slots[0], r.w.now);
	assert_int_equal(central_read(&r.w.c->limit->servers), 0);
	take(&r, r.c, 1, 0);
	fixture_set(&r.w, "max_server_connections", "2");
	fixture_join(r.a, &r.requests[1]);
	fixture_ask(&r.w, &r.requests[1], VERDICT_WAIT);
	fixture_next(&r.w, r.a, VERDICT_DIAL);
	pool_dialing(r.a, &r.slots[2], r.w.now);
	assert_int_equal(central_read(&r.w.c->limit->servers), 2);
	pool_dialing_cancel(r.a, &r.slots[2], r.w.now);
	assert_int_equal(central_read(&r.w.c->limit->servers), 1);
	end(&r);
}

/* A server that comes from another process beyond a limit of its database or user is
 * closed when its client no longer needs it. */
/* One server goes round between the pools that share a limit, whatever each of them may
 * keep. */
static void not_all_may_be_pinned(void **state)
{
	struct limits_fixture r;

	(void)state;
	begin(&r, "max_server_connections=3\nmax_pinned_servers=9\n");
	take(&r, r.a, 0, 0);
	take(&r, r.c, 1, 1);
	take(&r, r.c, 2, 2);
	assert_true(pins_claim(&r.slots[0]));
	assert_true(pins_claim(&r.slots[1]));
	assert_true(pins_claim(&r.slots[1]));
	assert_false(pins_claim(&r.slots[2]));
	assert_false(r.slots[2].is_pinned);
	pins_drop(&r.slots[0]);
	assert_true(pins_claim(&r.slots[2]));
	/* what comes from another process may exceed it */
	pins_restore(&r.slots[0]);
	fixture_set(&r.w, "max_server_connections", "0");
	fixture_set(&r.w, "max_db_connections", "2");
	pins_drop(&r.slots[2]);
	assert_false(pins_claim(&r.slots[2]));
	fixture_set(&r.w, "max_db_connections", "0");
	fixture_set(&r.w, "max_user_connections", "2");
	assert_false(pins_claim(&r.slots[2]));
	fixture_set(&r.w, "max_user_connections", "0");
	assert_true(pins_claim(&r.slots[2]));
	for (int i = 0; i < 3; i++)
		pool_gone(&r.slots[i], r.w.now);
	assert_int_equal(central_read(&r.w.c->limit->pinned), 0);
	end(&r);
}

static void one_too_many_from_another_process(void **state)
{
	static const char *const settings[] = {
	    "max_db_connections=1\n", "max_user_connections=1\n", ""};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		static const struct slot was = {.state = SLOT_ACTIVE};
		bool is_too_many = i < 2;
		struct limits_fixture r;
		begin(&r, settings[i]);
		take(&r, r.a, 0, 0);
		fixture_join(r.a, &r.requests[1]);
		pool_move_in(
		    r.a, &r.slots[1], &r.requests[1], &was, NULL, 5432, r.w.now);
		assert_int_equal(r.slots[0].dirty, DIRTY_NOT);
		assert_int_equal(
		    r.slots[1].dirty, is_too_many ? DIRTY_SURPLUS : DIRTY_NOT);
		fixture_give(
		    &r.w, &r.slots[1], is_too_many ? VERDICT_RETIRE : VERDICT_REST);
		if (is_too_many)
			pool_gone(&r.slots[1], r.w.now);
		give(&r, 0);
		end(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_process_is_full),
	    cmocka_unit_test(the_richest_gives_first),
	    cmocka_unit_test(the_least_size_is_kept),
	    cmocka_unit_test(the_only_one_is_left_for_a_moment),
	    cmocka_unit_test(nobody_starves),
	    cmocka_unit_test(two_limits_at_once),
	    cmocka_unit_test(who_comes_first_changes),
	    cmocka_unit_test(a_replication_client_becomes_the_first),
	    cmocka_unit_test(a_lower_limit_counts_at_once),
	    cmocka_unit_test(cancels_do_not_count),
	    cmocka_unit_test(not_all_may_be_pinned),
	    cmocka_unit_test(one_too_many_from_another_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
