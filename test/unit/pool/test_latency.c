/*
 * Durations in a pool: what is counted when, for which time, and that an unused pool
 * has no recent ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "pool_fixture.h"

struct figures {
	struct histogram *total[LATENCY_KINDS], *recent[LATENCY_KINDS];
};

static void figures_of(struct figures *f, const struct latency *l)
{
	*f = (struct figures){.total = {NULL}};
	latency_sum(l, f->total, f->recent);
}

static void figures_done(struct figures *f)
{
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		histogram_free(&f->total[kind]);
		histogram_free(&f->recent[kind]);
	}
}

/* Expects so many queries in total, and so many recent ones. */
static void assert_queries(const struct latency *l, uint64_t total, uint64_t recent)
{
	struct figures f;

	figures_of(&f, l);
	assert_int_equal(histogram_count(f.total[LATENCY_QUERY]), total);
	assert_int_equal(histogram_count(f.recent[LATENCY_QUERY]), recent);
	assert_null(f.total[LATENCY_LOGIN]);
	figures_done(&f);
}

static void since_the_last_snapshot_but_one(void **state)
{
	struct latency l = {.past = NULL};

	(void)state;
	assert_true(latency_is_empty(&l));
	latency_snapshot(&l);
	assert_true(latency_is_empty(&l));
	latency_add(&l, LATENCY_QUERY, 10);
	assert_queries(&l, 1, 1);
	assert_false(latency_is_still(&l));
	latency_snapshot(&l);
	assert_queries(&l, 1, 1);
	latency_add(&l, LATENCY_QUERY, 10);
	latency_add(&l, LATENCY_QUERY, 1000);
	assert_queries(&l, 3, 3);
	latency_snapshot(&l);
	assert_queries(&l, 3, 2);
	assert_false(latency_is_still(&l));
	latency_snapshot(&l);
	assert_queries(&l, 3, 0);
	assert_true(latency_is_still(&l));
	assert_false(latency_is_empty(&l));
	latency_done(&l);
	assert_true(latency_is_empty(&l));
}

/* What is counted separately is in the sums, before and after a snapshot. */
static void queries_that_are_transactions(void **state)
{
	struct latency l = {.past = NULL};
	struct figures f;

	(void)state;
	latency_add_single(&l, 300);
	latency_add_unwaited(&l);
	assert_false(latency_is_empty(&l));
	latency_add(&l, LATENCY_TRANSACTION, 500);
	latency_add(&l, LATENCY_WAIT, 20);
	for (int i = 0; i < 3; i++) {
		figures_of(&f, &l);
		assert_int_equal(histogram_sum(f.total[LATENCY_QUERY]), 300);
		assert_int_equal(histogram_sum(f.total[LATENCY_TRANSACTION]), 800);
		assert_int_equal(histogram_count(f.total[LATENCY_TRANSACTION]), 2);
		assert_int_equal(histogram_count(f.total[LATENCY_WAIT]), 2);
		assert_int_equal(histogram_zero_count(f.total[LATENCY_WAIT]), 1);
		assert_int_equal(
		    histogram_count(f.recent[LATENCY_TRANSACTION]), i < 2 ? 2 : 0);
		assert_int_equal(
		    histogram_count(f.recent[LATENCY_WAIT]), i < 2 ? 2 : 0);
		figures_done(&f);
		assert_int_equal(latency_is_still(&l), i == 2);
		latency_snapshot(&l);
	}
	latency_add_unwaited(&l);
	assert_false(latency_is_still(&l));
	latency_done(&l);
	assert_true(latency_is_empty(&l));
}

/* A pool that is freed leaves what it has counted to its database. */
static void durations_are_added_up(void **state)
{
	struct latency sum = {.past = NULL}, l = {.past = NULL};

	(void)state;
	for (int i = 0; i < 2; i++) {
		latency_add(&l, LATENCY_QUERY, 10);
		latency_snapshot(&l);
		latency_add(&l, LATENCY_QUERY, 10);
		latency_merge(&sum, &l);
		assert_true(latency_is_empty(&l));
	}
	assert_queries(&sum, 4, 4);
	latency_snapshot(&sum);
	latency_snapshot(&sum);
	assert_queries(&sum, 4, 0);
	latency_done(&sum);
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(latency_kind_shown(LATENCY_WAIT), "wait");
	assert_string_equal(latency_kind_shown(LATENCY_LOGIN), "login");
}

/* A client that gets a server at once waits 0; a connection counts when it can be
 * used. */
static void waits_and_connections(void **state)
{
	struct fixture w;
	struct pool_request first, second, third;
	struct slot slot = {.state = SLOT_NONE};
	struct figures f;

	(void)state;
	fixture_init(&w,
	    "[databases]\ndb=\n[pgbouncer]\npool_mode=transaction\ndefault_"
	    "pool_size=1\n");
	struct pool *pool = fixture_pool(&w, "db", "u");
	assert_true(latency_is_empty(&pool->latency));
	fixture_join(pool, &first);
	fixture_join(pool, &second);
	fixture_join(pool, &third);
	fixture_ask(&w, &first, VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_DIAL);
	pool_dialing(pool, &slot, w.now);
	w.now += 300;
	pool_got_login_params(pool);
	assert_int_equal(pool_logged_in(&slot, w.now).kind, VERDICT_GRANT);
	fixture_ask(&w, &second, VERDICT_WAIT);
	fixture_ask(&w, &third, VERDICT_WAIT);
	pool_withdraw(&third); /* the client got no server */
	w.now += 2000;
	fixture_give(&w, &slot, VERDICT_GRANT);
	fixture_give(&w, &slot, VERDICT_REST);
	fixture_ask(&w, &first, VERDICT_GRANT);
	fixture_give(&w, &slot, VERDICT_REST);

	figures_of(&f, &pool->latency);
	assert_int_equal(histogram_count(f.total[LATENCY_WAIT]), 3);
	assert_int_equal(histogram_zero_count(f.total[LATENCY_WAIT]), 1);
	assert_int_equal(histogram_sum(f.total[LATENCY_WAIT]), 2300);
	assert_int_equal(
	    histogram_sum(f.total[LATENCY_WAIT]), pool->stats.wait_time_us);
	assert_int_equal(histogram_count(f.total[LATENCY_CONNECT]), 1);
	assert_int_equal(histogram_sum(f.total[LATENCY_CONNECT]), 300);
	figures_done(&f);

	pool_part(&first);
	pool_part(&second);
	pool_part(&third);
	fixture_gone(&w, &slot);
	/* The pool is in the snapshots until it has nothing recent. */
	pool->stats = pool->history.older = pool->history.newer = (struct stats){0};
	catalog_snapshot_stats(w.c, w.now);
	assert_int_equal(w.c->counted.count, 1);
	catalog_snapshot_stats(w.c, w.now);
	assert_int_equal(w.c->counted.count, 0);
	figures_of(&f, &pool->latency);
	assert_null(f.recent[LATENCY_WAIT]);
	assert_int_equal(histogram_count(f.total[LATENCY_WAIT]), 3);
	figures_done(&f);
	fixture_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(since_the_last_snapshot_but_one),
	    cmocka_unit_test(queries_that_are_transactions),
	    cmocka_unit_test(durations_are_added_up),
	    cmocka_unit_test(names),
	    cmocka_unit_test(waits_and_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
