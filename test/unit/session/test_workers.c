/*
 * Workers without anything to do but to answer: calls, a worker that stands still, and
 * how clients are counted and spread.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "session/workers.h"

enum { WORKERS = 3 };

struct thread {
	pthread_t thread;
	struct workers *workers;
	unsigned index;
	struct mem mem;
	struct site site;
	sem_t *joined;
	struct thread_message end;
};

static struct scene {
	struct workers *workers;
	struct mem mem;
	struct site control;
	struct thread threads[WORKERS];
	/* a member that stands still */
	struct obstacle {
		struct thread_message message;
		sem_t begun, gate;
	} obstacle;
} s;

static void site_open(
    struct site *site, struct mem *mem, struct workers *workers, unsigned i)
{
	struct err err;

	mem_init(mem);
	site->loop = loop_new(mem, &err);
	assert_non_null(site->loop);
	list_init(&site->clients);
	list_init(&site->login_clients);
	assert_int_equal(workers_join(workers, i, site, &err), 0);
}

static void end_worker(struct thread_message *message)
{
	loop_stop(container_of(message, struct thread, end)->site.loop);
}

static void *work(void *arg)
{
	struct thread *w = arg;

	site_open(&w->site, &w->mem, w->workers, w->index);
	sem_post(w->joined);
	loop_run(w->site.loop);
	workers_leave(&w->site);
	loop_free(&w->site.loop);
	return NULL;
}

static int set_up(void **state)
{
	sem_t joined;

	(void)state;
	memset(&s, 0, sizeof(s));
	sem_init(&joined, 0, 0);
	s.workers = workers_new(WORKERS);
	for (unsigned i = 0; i < WORKERS; i++) {
		struct thread *w = &s.threads[i];
		w->workers = s.workers;
		w->index = i;
		w->joined = &joined;
		w->end.handle = end_worker;
		assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
		sem_wait(&joined);
	}
	sem_destroy(&joined);
	site_open(&s.control, &s.mem, s.workers, WORKERS);
	return 0;
}

struct visit {
	pthread_t thread;
	struct site *sites[WORKERS + 1]; /* in the order of visiting */
	unsigned count;
};

static void visited(struct site *site, void *ctx)
{
	struct visit *v = ctx;

	v->thread = pthread_self();
	assert_true(v->count <= WORKERS);
	v->sites[v->count++] = site;
}

static int tear_down(void **state)
{
	(void)state;
	struct visit v = {.count = 0};
	for (unsigned i = 0; i < WORKERS; i++)
		workers_post(&s.workers->members[i], &s.threads[i].end);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(s.threads[i].thread, NULL);
	assert_int_equal(workers_each(&s.control, visited, &v), 0);
	workers_leave(&s.control);
	loop_free(&s.control.loop);
	workers_free(&s.workers);
	assert_null(s.workers);
	return 0;
}

/* ---- calls ---- */

/* Also on a machine that is so busy that a thread does not run for a while. */
static void call_surely(struct worker *member, workers_fn *fn, void *ctx)
{
	while (!workers_call(member, fn, ctx))
		sched_yield();
}

static void call_runs_on_its_member(void **state)
{
	(void)state;
	for (unsigned i = 0; i < WORKERS; i++) {
		struct visit v = {.count = 0};
		call_surely(&s.workers->members[i], visited, &v);
		assert_int_equal(v.count, 1);
		assert_ptr_equal(v.sites[0], &s.threads[i].site);
		assert_true(pthread_equal(v.thread, s.threads[i].thread));
	}
	struct visit v = {.count = 0};
	assert_true(workers_call(workers_control(s.workers), visited, &v));
	assert_int_equal(v.count, 1);
	assert_ptr_equal(v.sites[0], &s.control);
	assert_true(pthread_equal(v.thread, pthread_self()));
}

static void each_site_once_and_the_own_last(void **state)
{
	(void)state;
	struct visit v;

	do
		v.count = 0;
	while (workers_each(&s.control, visited, &v) > 0);
	assert_int_equal(v.count, WORKERS + 1);
	for (unsigned i = 0; i < WORKERS; i++)
		assert_ptr_equal(v.sites[i], &s.threads[i].site);
	assert_ptr_equal(v.sites[WORKERS], &s.control);
}

static void alone(void **state)
{
	(void)state;
	struct site site = {.worker = NULL};
	struct visit v = {.count = 0};

	list_init(&site.clients);
	list_init(&site.login_clients);
	assert_true(workers_is_control(&site));
	assert_int_equal(workers_site_count(&site), 1);
	assert_int_equal(workers_each(&site, visited, &v), 0);
	assert_int_equal(v.count, 1);
	assert_ptr_equal(v.sites[0], &site);
	workers_count_client(&site, 1);
	assert_int_equal(workers_client_count(&site), 0);
}

/* ---- a worker that stands still ---- */

static void stand_still(struct thread_message *message)
{
	struct obstacle *o = container_of(message, struct obstacle, message);

	sem_post(&o->begun);
	sem_wait(&o->gate);
}

/* Returns when the member is in the middle of something that ends with the gate. */
static struct worker *stop_member(unsigned index)
{
	struct worker *member = &s.workers->members[index];
	struct obstacle *o = &s.obstacle;

	sem_init(&o->begun, 0, 0);
	sem_init(&o->gate, 0, 0);
	o->message.handle = stand_still;
	workers_post(member, &o->message);
	sem_wait(&o->begun);
	return member;
}

struct sign {
	struct thread_message message;
	sem_t seen;
};

static void sign_seen(struct thread_message *message)
{
	sem_post(&container_of(message, struct sign, message)->seen);
}

/* All that was posted before is opened. */
static void drain(struct worker *member)
{
	struct sign sign = {.message.handle = sign_seen};

	sem_init(&sign.seen, 0, 0);
	workers_post(member, &sign.message);
	sem_wait(&sign.seen);
	sem_destroy(&sign.seen);
}

static void let_go_on(struct worker *member)
{
	sem_post(&s.obstacle.gate);
	drain(member);
}

static void a_call_is_given_up(void **state)
{
	(void)state;
	struct worker *member = stop_member(1);
	struct visit given_up = {.count = 0}, v = {.count = 0};

	assert_false(workers_call(member, visited, &given_up));
	assert_true(member->is_silent);
	/* The next one posts nothing: nobody would open it either. */
	assert_false(workers_call(member, visited, &given_up));
	let_go_on(member);
	assert_int_equal(given_up.count, 0);
	assert_false(member->is_silent);
	call_surely(member, visited, &v);
	assert_int_equal(v.count, 1);
	assert_int_equal(given_up.count, 0);
}

static void count_visit(struct site *site)
{
	site->next_id++;
}

static void note_news(struct site *site, const void *what)
{
	site->next_id += what != NULL;
}

static void read_visits(struct site *site, void *ctx)
{
	uint64_t *visits = ctx;

	*visits = site->next_id;
}

static void all_are_visited_the_silent_one_later(void **state)
{
	(void)state;
	struct worker *member = stop_member(0);
	uint64_t visits = 7;

	unsigned first = member->broadcast;
	workers_spread(&s.control, note_news, "", 1);
	assert_false(workers_has_missed(workers_control(s.workers), first));
	workers_all(&s.control, count_visit);
	assert_int_equal(s.control.next_id, 2);
	assert_int_equal(s.threads[0].site.next_id, 0);
	/* What has left the silent one now has missed the order where it comes. */
	unsigned before = member->broadcast;
	assert_true(workers_has_missed(workers_control(s.workers), before));
	assert_false(workers_has_missed(member, before));
	sem_post(&s.obstacle.gate);
	/* What is asked for later comes later. */
	call_surely(member, read_visits, &visits);
	assert_int_equal(visits, 2);
	assert_int_equal(member->broadcast, workers_control(s.workers)->broadcast);
	assert_false(workers_has_missed(workers_control(s.workers), member->broadcast));
	for (unsigned i = 1; i < WORKERS; i++) {
		drain(&s.workers->members[i]);
		call_surely(&s.workers->members[i], read_visits, &visits);
		assert_int_equal(visits, 2);
	}
}

static void others_are_visited_meanwhile(void **state)
{
	(void)state;
	struct worker *member = stop_member(0);
	struct visit v;

	do
		v.count = 0;
	while (workers_each(&s.control, visited, &v) > 1);
	assert_int_equal(v.count, WORKERS);
	for (unsigned i = 0; i < v.count; i++)
		assert_ptr_not_equal(v.sites[i], &s.threads[0].site);
	let_go_on(member);
}

/* ---- clients ---- */

static void new_clients_are_spread_evenly(void **state)
{
	(void)state;
	unsigned picked[WORKERS + 1] = {0};

	for (int i = 0; i < 10 * WORKERS; i++) {
		picked[workers_pick(s.workers)->index]++;
		for (int k = 0; k < WORKERS; k++)
			for (int n = 0; n < k; n++)
				assert_true(picked[k] <= picked[n] + 1 &&
					    picked[n] <= picked[k] + 1);
	}
	assert_int_equal(picked[WORKERS], 0);
	assert_int_equal(workers_client_count(&s.control), 10 * WORKERS);
}

/* Whether it is known to stand still because somebody has called it, or only does not
 * handle its messages. */
static void who_stands_still_gets_no_client(void **state)
{
	(void)state;
	struct worker *member = &s.workers->members[1];

	for (int is_called = 0; is_called < 2; is_called++) {
		struct visit v = {.count = 0};
		struct sign sign = {.message.handle = sign_seen};
		stop_member(1);
		assert_false(workers_is_unresponsive(s.workers, 1));
		sem_init(&sign.seen, 0, 0);
		workers_post(member, &sign.message);
		if (is_called)
			assert_false(workers_call(member, visited, &v));
		while (!workers_is_unresponsive(s.workers, 1))
			;
		assert_int_equal(member->is_silent, is_called);
		for (int i = 0; i < 4 * WORKERS; i++)
			assert_int_not_equal(workers_pick(s.workers)->index, 1);
		let_go_on(member);
		assert_false(workers_is_unresponsive(s.workers, 1));
		assert_int_equal(workers_pick(s.workers)->index, 1);
		workers_unpick(member);
		assert_int_equal(member->client_count, 0);
		sem_destroy(&sign.seen);
	}
}

static void the_one_with_the_fewest_is_next(void **state)
{
	(void)state;
	for (int i = 0; i < 4 * WORKERS; i++)
		workers_pick(s.workers);
	workers_count_client(&s.threads[2].site, -3);
	workers_count_client(&s.threads[1].site, -1);
	workers_count_client(&s.control, 1); /* a console counts, but elsewhere */
	assert_int_equal(workers_client_count(&s.control), 4 * WORKERS - 3);
	assert_int_equal(workers_client_count(&s.threads[0].site), 4 * WORKERS - 3);
	assert_int_equal(workers_pick(s.workers)->index, 2);
	assert_int_equal(workers_pick(s.workers)->index, 2);
	assert_int_not_equal(workers_pick(s.workers)->index, 0);
	assert_int_not_equal(workers_pick(s.workers)->index, 0);
	assert_int_equal(s.workers->members[1].client_count, 4);
	assert_int_equal(s.workers->members[2].client_count, 4);
}

/* Where all are alike it is another one each time, also when clients go at once. */
static void nobody_is_the_favourite(void **state)
{
	(void)state;
	unsigned picked[WORKERS] = {0};

	for (int i = 0; i < 4 * WORKERS; i++) {
		struct worker *member = workers_pick(s.workers);
		picked[member->index]++;
		workers_count_client(member->site, -1);
	}
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(picked[i], 4);
	assert_int_equal(workers_client_count(&s.control), 0);
}

static void places(void **state)
{
	(void)state;
	assert_int_equal(workers_site_count(&s.control), WORKERS + 1);
	assert_true(workers_is_control(&s.control));
	for (unsigned i = 0; i < WORKERS; i++) {
		assert_false(workers_is_control(&s.threads[i].site));
		assert_int_equal(s.threads[i].site.worker->index, i);
	}
	assert_ptr_equal(workers_control(s.workers)->site, &s.control);
}

#define WORKERS_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WORKERS_TEST(places),
	    WORKERS_TEST(call_runs_on_its_member),
	    WORKERS_TEST(each_site_once_and_the_own_last),
	    cmocka_unit_test(alone),
	    WORKERS_TEST(a_call_is_given_up),
	    WORKERS_TEST(all_are_visited_the_silent_one_later),
	    WORKERS_TEST(others_are_visited_meanwhile),
	    WORKERS_TEST(new_clients_are_spread_evenly),
	    WORKERS_TEST(who_stands_still_gets_no_client),
	    WORKERS_TEST(the_one_with_the_fewest_is_next),
	    WORKERS_TEST(nobody_is_the_favourite),
	};

	return cmocka_run_group_tests_name("workers", tests, NULL, NULL);
}
