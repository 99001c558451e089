/*
 * Counts that several sites share: sums, who waits longest, which site has what, and a
 * limit that threads compete for.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pool/tally.h"

enum { SITES = 4, LIMIT = 3, TURNS = 20000 };

static struct tally_view view_at(struct tallies *t, unsigned site)
{
	return (struct tally_view){.tallies = t, .site = site, .site_count = SITES};
}

static void one_tally_for_one_name(void **state)
{
	(void)state;
	struct tallies *t = tallies_new(SITES);
	struct tally *pool = tally_hold(t, TALLY_POOL, "d", "u");
	struct tally *same = tally_hold(t, TALLY_POOL, "d", "u");
	struct tally *others[] = {
	    tally_hold(t, TALLY_POOL, "du", ""),
	    tally_hold(t, TALLY_POOL, "", "du"),
	    tally_hold(t, TALLY_DATABASE, "d", NULL),
	    tally_hold(t, TALLY_USER, NULL, "u"),
	    tally_hold(t, TALLY_USER, NULL, "d"),
	    tally_hold(t, TALLY_PROCESS, NULL, NULL),
	};

	assert_ptr_equal(pool, same);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_ptr_not_equal(others[i], pool);
		for (size_t k = 0; k < i; k++)
			assert_ptr_not_equal(others[i], others[k]);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		tally_release(t, &others[i]);
	/* a tally lives while there are references, whatever is counted except
	 * servers and clients */
	pool->slots[1].queued = 5;
	tally_release(t, &pool);
	assert_null(pool);
	pool = tally_hold(t, TALLY_POOL, "d", "u");
	assert_ptr_equal(pool, same);
	assert_int_equal(pool->slots[1].queued, 5);
	tally_release(t, &pool);
	tally_release(t, &same);
	same = tally_hold(t, TALLY_POOL, "d", "u");
	assert_int_equal(same->slots[1].queued, 0);
	tally_release(t, &same);
	tally_release(t, &same);
	tallies_free(&t);
	assert_null(t);
}

static void count_d(void *ctx, const char *database)
{
	assert_string_equal(database, "d");
	++*(int *)ctx;
}

static void databases_with_a_pool(void **state)
{
	(void)state;
	struct tallies *t = tallies_new(SITES);
	struct tally *held[] = {tally_hold(t, TALLY_POOL, "d", "u"),
	    tally_hold(t, TALLY_POOL, "d", "v"),
	    tally_hold(t, TALLY_DATABASE, "e", NULL),
	    tally_hold(t, TALLY_HOST, "f", NULL)};
	int count = 0;

	tallies_each_database(t, count_d, &count);
	assert_int_equal(count, 2);
	for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++)
		tally_release(t, &held[i]);
	tallies_free(&t);
}

static void sums(void **state)
{
	(void)state;
	struct tallies *t = tallies_new(SITES);
	struct tally *tally = tally_hold(t, TALLY_POOL, "d", "u");
	struct tally_view view = view_at(t, 1);

	for (int i = 0; i < SITES; i++) {
		tally_add(&tally->slots[i].servers, 1 << i);
		tally_add(&tally->slots[i].clients, 10 << i);
		tally_add_own(&tally->slots[i].connected, 100 << i);
	}
	assert_ptr_equal(tally_own(&view, tally), &tally->slots[1]);
	assert_int_equal(tally_servers(&view, tally), 15);
	assert_int_equal(tally_clients_elsewhere(&view, tally), 130);
	assert_int_equal(tally_connected_elsewhere(&view, tally), 1300);
	assert_int_equal(tally_clients_elsewhere(&view, NULL), 0);
	tally_add(&tally->slots[3].servers, -8);
	assert_int_equal(tally_servers(&view, tally), 7);
	tally_release(t, &tally);
	tallies_free(&t);
}

static void most_at_rest(void **state)
{
	(void)state;
	struct tallies *t = tallies_new(SITES);
	struct tally *tally = tally_hold(t, TALLY_POOL, "d", "u");
	struct tally_view view = view_at(t, 1);

	assert_int_equal(tally_find_resting(&view, NULL), -1);
	assert_int_equal(tally_find_resting(&view, tally), -1);
	tally->slots[1].resting = 9; /* a site's own count is not included */
	assert_int_equal(tally_find_resting(&view, tally), -1);
	tally->slots[0].resting = 1;
	assert_int_equal(tally_find_resting(&view, tally), 0);
	tally->slots[3].resting = 2;
	assert_int_equal(tally_find_resting(&view, tally), 3);
	tally_release(t, &tally);
	tallies_free(&t);
}

static bool is_deaf(void *ctx, unsigned site)
{
	return *(unsigned *)ctx == site;
}

/* A site that a server is on its way to gets no other one, but not for long. */
static void server_that_does_not_arrive(void **state)
{
	(void)state;
	struct tallies *t = tallies_new(SITES);
	struct tally *tally = tally_hold(t, TALLY_POOL, "d", "u");
	struct tally_view view = view_at(t, 1), waiting_view = view_at(t, 3);
	uint64_t since_us;

	tally_note_waiting(&waiting_view, tally, 100);
	assert_int_equal(tally_find_receiver(&view, tally, 1000, &since_us), 3);
	tally_note_arrival(&tally->slots[3], 1000);
	assert_int_equal(tally_find_receiver(&view, tally, 50999, &since_us), -1);
	assert_int_equal(tally_find_waiting(&view, tally, &since_us), 3);
	assert_int_equal(tally_find_receiver(&view, tally, 51000, &since_us), 3);
	tally_note_arrival(&tally->slots[3], 51000);
	assert_int_equal(tally_find_receiver(&view, tally, 51001, &since_us), -1);
	tally_add(&tally->slots[3].arriving, -2);
	assert_int_equal(tally_find_receiver(&view, tally, 51001, &since_us), 3);
	tally_note_waiting(&waiting_view, tally, 0);
	tally_release(t, &tally);
	tallies_free(&t);
}

/* It has the most resting servers, and the client that has waited longest. */
static void site_that_does_not_answer(void **state)
{
	(void)state;
	struct tallies *t = tallies_new(SITES);
	struct tally *tally = tally_hold(t, TALLY_POOL, "d", "u");
	struct tally_view view = view_at(t, 1), deaf_view = view_at(t, 3),
			  other_view = view_at(t, 2);
	unsigned deaf = SITES;
	uint64_t since_us;

	tallies_on_deaf(t, is_deaf, &deaf);
	tally->slots[0].resting = 1;
	tally->slots[3].resting = 2;
	tally->slots[2].has_welcome = tally->slots[3].has_welcome = true;
	tally_note_waiting(&deaf_view, tally, 100);
	assert_int_equal(tally_find_resting(&view, tally), 3);
	assert_int_equal(tally_find_receiver(&view, tally, 0, &since_us), 3);
	deaf = 2;
	assert_int_equal(tally_find_welcome(&view, tally), 3);
	deaf = 3;
	assert_int_equal(tally_find_welcome(&view, tally), 2);
	assert_int_equal(tally_find_resting(&view, tally), 0);
	assert_int_equal(tally_find_receiver(&view, tally, 0, &since_us), -1);
	/* nor is room left to it; it looks again when it goes on */
	assert_int_equal(tally_find_waiting(&view, tally, &since_us), -1);
	tally_note_waiting(&other_view, tally, 200);
	assert_int_equal(tally_find_receiver(&view, tally, 0, &since_us), 2);
	assert_int_equal(since_us, 200);
	assert_int_equal(tally_find_waiting(&view, tally, &since_us), 2);
	tally->slots[0].resting = 0;
	assert_int_equal(tally_find_resting(&view, tally), -1);
	tally_note_waiting(&deaf_view, tally, 0);
	tally_note_waiting(&other_view, tally, 0);
	tally_release(t, &tally);
	tallies_free(&t);
}

static void known_welcome(void **state)
{
	(void)state;
	struct tallies *t = tallies_new(SITES);
	struct tally *tally = tally_hold(t, TALLY_POOL, "d", "u");
	struct tally_view view = view_at(t, 2);

	assert_int_equal(tally_find_welcome(&view, NULL), -1);
	tally->slots[2].has_welcome = true;
	assert_int_equal(tally_find_welcome(&view, tally), -1);
	tally->slots[3].has_welcome = true;
	assert_int_equal(tally_find_welcome(&view, tally), 3);
	tally_release(t, &tally);
	tallies_free(&t);
}

static void longest_waiting(void **state)
{
	(void)state;
	struct tallies *t = tallies_new(SITES);
	struct tally *tally = tally_hold(t, TALLY_POOL, "d", "u");
	struct tally_view views[SITES];
	uint64_t since_us = 7;

	for (unsigned i = 0; i < SITES; i++)
		views[i] = view_at(t, i);
	assert_int_equal(tally_find_waiting(&views[0], NULL, &since_us), -1);
	assert_int_equal(tally_find_waiting(&views[0], tally, &since_us), -1);
	tally_note_waiting(&views[0], tally, 10);
	tally_note_waiting(&views[2], tally, 30);
	tally_note_waiting(&views[3], tally, 20);
	assert_int_equal(tally->waiting_count, 3);
	assert_int_equal(tally_find_waiting(&views[0], tally, &since_us), 3);
	assert_int_equal(since_us, 20);
	assert_int_equal(tally_find_waiting(&views[1], tally, &since_us), 0);
	assert_int_equal(since_us, 10);
	/* the next client of that site waits, and then none */
	tally_note_waiting(&views[0], tally, 40);
	assert_int_equal(tally_find_waiting(&views[1], tally, &since_us), 3);
	tally_note_waiting(&views[3], tally, 0);
	tally_note_waiting(&views[3], tally, 0);
	assert_int_equal(tally->waiting_count, 2);
	assert_int_equal(tally_find_waiting(&views[1], tally, &since_us), 2);
	tally_note_waiting(&views[2], tally, 0);
	assert_int_equal(tally_find_waiting(&views[0], tally, &since_us), -1);
	assert_int_equal(tally_find_waiting(&views[2], tally, &since_us), 0);
	assert_int_equal(since_us, 40);
	tally_note_waiting(&views[0], tally, 0);
	assert_int_equal(tally->waiting_count, 0);
	tally_release(t, &tally);
	tallies_free(&t);
}

/* ---- threads ---- */

struct rival {
	pthread_t thread;
	struct tally_view view;
	unsigned taken;
	bool was_exceeded;
};

/* Takes room under the lock if there is any, and gives it back without the lock. */
static void *rush(void *arg)
{
	struct rival *r = arg;
	struct tallies *t = r->view.tallies;

	for (int i = 0; i < TURNS; i++) {
		struct tally *tally = tally_hold(t, TALLY_USER, NULL, "u");
		tallies_lock(t);
		bool may = tally_servers(&r->view, tally) < LIMIT;
		if (may)
			tally_add(&tally_own(&r->view, tally)->servers, 1);
		r->was_exceeded =
		    r->was_exceeded || tally_servers(&r->view, tally) > LIMIT;
		tallies_unlock(t);
		tally_note_waiting(&r->view, tally, may ? 0 : 1 + (uint64_t)i);
		if (may)
			tally_add(&tally_own(&r->view, tally)->servers, -1);
		r->taken += may;
		tally_note_waiting(&r->view, tally, 0);
		tally_release(t, &tally);
	}
	return NULL;
}

static void limit_among_threads(void **state)
{
	(void)state;
	struct tallies *t = tallies_new(SITES);
	struct tally *tally = tally_hold(t, TALLY_USER, NULL, "u");
	struct rival rivals[SITES] = {0};

	for (unsigned i = 0; i < SITES; i++) {
		rivals[i].view = view_at(t, i);
		assert_int_equal(
		    pthread_create(&rivals[i].thread, NULL, rush, &rivals[i]), 0);
	}
	for (unsigned i = 0; i < SITES; i++) {
		pthread_join(rivals[i].thread, NULL);
		assert_true(rivals[i].taken > 0);
		assert_false(rivals[i].was_exceeded);
	}
	assert_int_equal(tally_servers(&rivals[0].view, tally), 0);
	assert_int_equal(tally->waiting_count, 0);
	assert_int_equal(tally->users, 1);
	tally_release(t, &tally);
	tallies_free(&t);
}

/* No site has a pool of that name while its only server is on its way. */
static void counts_what_nobody_holds(void **state)
{
	(void)state;
	struct tallies *t = tallies_new(SITES);
	struct tally_view view = view_at(t, 0);

	for (int i = 0; i < 2; i++) {
		struct tally *tally = tally_hold(t, TALLY_POOL, "d", "u");
		assert_int_equal(tally_servers(&view, tally), i);
		tally_add(&tally_own(&view, tally)->servers, 1);
		assert_true(tally_is_news(tally));
		tally_release(t, &tally);
	}
	struct tally *tally = tally_hold(t, TALLY_POOL, "d", "u");
	tally_add(&tally_own(&view, tally)->servers, -2);
	tally_add(&tally_own(&view, tally)->clients, 1);
	tally_release(t, &tally);
	tally = tally_hold(t, TALLY_POOL, "d", "u");
	assert_int_equal(tally_own(&view, tally)->clients, 1);
	tally_add(&tally_own(&view, tally)->clients, -1);
	tally_release(t, &tally);
	tally = tally_hold(t, TALLY_POOL, "d", "v");
	tally_add(&tally_own(&view, tally)->servers, 1);
	tally_release(t, &tally);
	tallies_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_tally_for_one_name),
	    cmocka_unit_test(databases_with_a_pool),
	    cmocka_unit_test(sums),
	    cmocka_unit_test(most_at_rest),
	    cmocka_unit_test(server_that_does_not_arrive),
	    cmocka_unit_test(site_that_does_not_answer),
	    cmocka_unit_test(known_welcome),
	    cmocka_unit_test(longest_waiting),
	    cmocka_unit_test(limit_among_threads),
	    cmocka_unit_test(counts_what_nobody_holds),
	};

	return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
