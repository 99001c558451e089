/*
 * What workers share: objects by name, and as long as something is counted in them; the
 * lock and what is told under it; the parameters with which clients are greeted; and a
 * limit that threads compete for.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "pool/central.h"

enum { WORKERS = 4, LIMIT = 3, TURNS = 20000 };

static struct central_view view_of(struct central *c, unsigned worker)
{
	return (struct central_view){.central = c, .worker = worker};
}

static struct central_pool *pool_of(
    struct central_view *view, const char *database, const char *user)
{
	struct central_limit *limits[CONN_LIMIT_COUNT];

	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		limits[kind] = central_limit_hold(
		    view, kind, kind == CONN_LIMIT_USER ? user : database);
	struct central_pool *pool = central_pool_hold(view, database, user, limits);
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		central_limit_release(view, &limits[kind]);
	return pool;
}

static void one_object_for_one_name(void **state)
{
	(void)state;
	struct central *c = central_new(WORKERS);
	struct central_view view = view_of(c, 0), other = view_of(c, 1);
	struct central_pool *pools[] = {pool_of(&view, "d", "u"),
	    pool_of(&other, "d", "u"), pool_of(&view, "du", ""),
	    pool_of(&view, "", "du")};
	struct central_limit *limits[] = {
	    central_limit_hold(&view, CONN_LIMIT_USER, "d"),
	    central_limit_hold(&view, CONN_LIMIT_DATABASE, "d"),
	    central_limit_hold(&other, CONN_LIMIT_PROCESS, NULL)};

	assert_ptr_equal(pools[0], pools[1]);
	for (size_t i = 1; i < 4; i++)
		for (size_t k = i + 1; k < 4; k++)
			assert_ptr_not_equal(pools[i], pools[k]);
	assert_ptr_not_equal(limits[0], limits[1]);
	assert_ptr_equal(pools[0]->limits[CONN_LIMIT_DATABASE], limits[1]);
	assert_ptr_equal(pools[2]->limits[CONN_LIMIT_PROCESS], limits[2]);
	assert_true(central_claim_news(&view, &pools[0]->name));
	assert_false(central_claim_news(&other, &pools[0]->name));
	/* a pool's reference to its limits makes nobody a holder of them */
	assert_true(central_is_last(&view, &limits[1]->name));
	assert_false(central_is_last(&view, &pools[0]->name));
	central_pool_release(&view, &pools[0]);
	assert_null(pools[0]);
	assert_true(central_is_last(&other, &pools[1]->name));
	for (size_t i = 1; i < 4; i++)
		central_pool_release(&view, &pools[i]);
	for (size_t i = 0; i < 3; i++)
		central_limit_release(&view, &limits[i]);
	assert_int_equal(map_count(c->by_name), 0);
	central_free(&c);
	assert_null(c);
}

static void count_d(void *ctx, const char *database)
{
	assert_string_equal(database, "d");
	++*(int *)ctx;
}

static void databases_with_a_pool(void **state)
{
	(void)state;
	struct central *c = central_new(WORKERS);
	struct central_view view = view_of(c, 0);
	struct central_pool *pools[] = {
	    pool_of(&view, "d", "u"), pool_of(&view, "d", "v")};
	struct central_limit *limit =
	    central_limit_hold(&view, CONN_LIMIT_DATABASE, "e");
	struct central_host *host = central_host_hold(&view, "", "f");
	int count = 0;

	central_each_database(c, count_d, &count);
	assert_int_equal(count, 2);
	for (size_t i = 0; i < 2; i++)
		central_pool_release(&view, &pools[i]);
	central_limit_release(&view, &limit);
	central_host_release(&view, &host);
	central_free(&c);
}

/* No worker has a pool of that name while its only server is on its way. */
static void counts_what_nobody_holds(void **state)
{
	(void)state;
	struct central *c = central_new(WORKERS);
	struct central_view view = view_of(c, 0);
	struct central_pool *pool = pool_of(&view, "d", "u");

	atomic_fetch_add(&pool->servers, 1);
	assert_true(central_claim_news(&view, &pool->name));
	central_pool_release(&view, &pool);
	pool = pool_of(&view, "d", "u");
	assert_int_equal(pool->servers, 1);
	assert_true(central_claim_news(&view, &pool->name));
	atomic_fetch_sub(&pool->servers, 1);
	central_pool_release(&view, &pool);
	struct central_limit *limit = central_limit_hold(&view, CONN_LIMIT_USER, "u");
	atomic_fetch_add(&limit->clients, 1);
	central_limit_release(&view, &limit);
	limit = central_limit_hold(&view, CONN_LIMIT_USER, "u");
	assert_int_equal(limit->clients, 1);
	central_limit_release(&view, &limit);
	central_free(&c);
}

/* ---- notes ---- */

static struct central_note *posted[4];
static size_t posted_count;

static void post(void *ctx, struct central_note *note)
{
	/* the lock is free by then */
	assert_int_equal(((struct central_view *)ctx)->depth, 0);
	assert_true(posted_count < 4);
	posted[posted_count++] = note;
}

static void told_when_the_lock_is_free(void **state)
{
	(void)state;
	struct central *c = central_new(WORKERS);
	struct central_view view = view_of(c, 0);
	struct central_part part = {.worker = 2};
	struct central_pool *pool = pool_of(&view, "d", "u");

	view.post = post;
	view.post_ctx = &view;
	central_lock(&view);
	central_lock(&view);
	/* that worker has no such pool */
	central_tell(&view, 1, NOTE_LOOK, pool, NULL);
	pool->places[2].part = &part;
	central_tell(&view, 2, NOTE_LOOK, pool, NULL);
	central_tell(&view, 2, NOTE_LOOK, pool, NULL);
	central_tell(&view, 2, NOTE_GIVE_UP, pool, NULL);
	central_tell(&view, 3, NOTE_MAKE_ROOM, NULL, pool->limits[CONN_LIMIT_USER]);
	central_unlock(&view);
	assert_int_equal(posted_count, 0);
	central_unlock(&view);
	assert_int_equal(posted_count, 3);
	assert_int_equal(posted[0]->kind, NOTE_LOOK);
	assert_int_equal(posted[0]->worker, 2);
	assert_ptr_equal(posted[2]->limit, pool->limits[CONN_LIMIT_USER]);
	/* a note keeps what it is about */
	pool->places[2].part = NULL;
	central_pool_release(&view, &pool);
	assert_int_not_equal(map_count(c->by_name), 0);
	while (posted_count > 0)
		central_note_free(posted[--posted_count]);
	assert_int_equal(map_count(c->by_name), 0);
	mem_free(view.told);
	central_free(&c);
}

/* ---- the parameters ---- */

static unsigned write(struct central_view *view, struct central_pool *pool,
    unsigned number, const char *text, bool expected)
{
	struct buf buf;

	buf_init(&buf, 0);
	buf_put_text(&buf, text);
	assert_int_equal(
	    central_write_login_params(view, pool, &number, &buf), expected);
	buf_done(&buf);
	return number;
}

static void expect(struct central_view *view, struct central_pool *pool,
    unsigned number, const char *text)
{
	struct buf buf;

	buf_init(&buf, 0);
	assert_int_equal(central_login_params(pool), number);
	assert_int_equal(central_read_login_params(view, pool, &buf), number);
	assert_string_equal(buf_text(&buf), text);
	buf_done(&buf);
}

static void login_params_of_the_last_writer(void **state)
{
	(void)state;
	struct central *c = central_new(WORKERS);
	struct central_view a = view_of(c, 0), b = view_of(c, 1);
	struct central_pool *pool = pool_of(&a, "d", "u");
	unsigned first, second;

	assert_int_equal(central_login_params(pool), 0);
	first = write(&a, pool, 0, "one", true);
	/* the other has not read it */
	assert_int_equal(write(&b, pool, 0, "two", false), 0);
	expect(&b, pool, first, "one");
	second = write(&b, pool, first, "three", true);
	assert_int_not_equal(second, first);
	expect(&a, pool, second, "three");
	/* a worker that has yet to forget it brings nothing back */
	a.broadcast = 1;
	central_forget_login_params(&a, pool);
	assert_int_equal(central_login_params(pool), 0);
	assert_int_equal(write(&b, pool, 0, "four", true), 0);
	assert_int_equal(central_login_params(pool), 0);
	/* what was written after the order stays when others follow it */
	first = write(&a, pool, 0, "five", true);
	b.broadcast = 1;
	central_forget_login_params(&b, pool);
	expect(&b, pool, first, "five");
	/* the other one follows later an order that came before a server told the same
	 */
	b.broadcast = 3;
	central_confirm_login_params(&b, pool);
	a.broadcast = 2;
	central_forget_login_params(&a, pool);
	expect(&a, pool, first, "five");
	central_pool_release(&a, &pool);
	central_free(&c);
}

/* ---- threads ---- */

struct rival {
	pthread_t thread;
	struct central_view view;
	unsigned taken;
	bool was_exceeded;
};

/* Takes room if there is any, and gives it back. */
static void *rush(void *arg)
{
	struct rival *r = arg;

	for (int i = 0; i < TURNS; i++) {
		struct central_limit *limit =
		    central_limit_hold(&r->view, CONN_LIMIT_USER, "u");
		central_lock(&r->view);
		bool may = limit->servers < LIMIT;
		if (may)
			atomic_fetch_add(&limit->servers, 1);
		r->was_exceeded = r->was_exceeded || limit->servers > LIMIT;
		central_unlock(&r->view);
		central_add_own(&limit->lines[r->view.worker].resting, 1);
		if (may)
			atomic_fetch_sub(&limit->servers, 1);
		r->taken += may;
		central_add_own(&limit->lines[r->view.worker].resting, -1);
		central_limit_release(&r->view, &limit);
	}
	return NULL;
}

static void limit_among_threads(void **state)
{
	(void)state;
	struct central *c = central_new(WORKERS);
	struct central_view view = view_of(c, 0);
	struct central_limit *limit = central_limit_hold(&view, CONN_LIMIT_USER, "u");
	struct rival rivals[WORKERS] = {0};

	for (unsigned i = 0; i < WORKERS; i++) {
		rivals[i].view = view_of(c, i);
		assert_int_equal(
		    pthread_create(&rivals[i].thread, NULL, rush, &rivals[i]), 0);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		pthread_join(rivals[i].thread, NULL);
		assert_true(rivals[i].taken > 0);
		assert_false(rivals[i].was_exceeded);
		assert_int_equal(limit->lines[i].resting, 0);
	}
	assert_int_equal(limit->servers, 0);
	assert_int_equal(limit->name.refs, 1);
	central_limit_release(&view, &limit);
	central_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_object_for_one_name),
	    cmocka_unit_test(databases_with_a_pool),
	    cmocka_unit_test(counts_what_nobody_holds),
	    cmocka_unit_test(told_when_the_lock_is_free),
	    cmocka_unit_test(login_params_of_the_last_writer),
	    cmocka_unit_test(limit_among_threads),
	};

	return cmocka_run_group_tests_name("central", tests, NULL, NULL);
}
