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

#include "session/crew.h"

enum { WORKERS = 3 };

struct worker {
	pthread_t thread;
	struct crew *crew;
	unsigned index;
	struct mem mem;
	struct site site;
	sem_t *joined;
	struct letter end;
};

struct scene {
	struct crew *crew;
	struct mem mem;
	struct site control;
	struct worker workers[WORKERS];
};

static void site_open(struct site *site, struct mem *mem, struct crew *crew, unsigned i)
{
	struct err err;

	mem_init(mem);
	site->loop = loop_new(mem, &err);
	assert_non_null(site->loop);
	list_init(&site->clients);
	list_init(&site->login_clients);
	assert_int_equal(crew_join(crew, i, site, &err), 0);
}

static void end_worker(struct letter *letter)
{
	loop_stop(container_of(letter, struct worker, end)->site.loop);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	site_open(&w->site, &w->mem, w->crew, w->index);
	sem_post(w->joined);
	loop_run(w->site.loop);
	crew_leave(&w->site);
	loop_free(&w->site.loop);
	return NULL;
}

static int set_up(void **state)
{
	struct scene *s = mem_zero_lines(sizeof(*s));
	sem_t joined;

	sem_init(&joined, 0, 0);
	s->crew = crew_new(WORKERS);
	for (unsigned i = 0; i < WORKERS; i++) {
		struct worker *w = &s->workers[i];
		w->crew = s->crew;
		w->index = i;
		w->joined = &joined;
		w->end.open = end_worker;
		assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
		sem_wait(&joined);
	}
	sem_destroy(&joined);
	site_open(&s->control, &s->mem, s->crew, WORKERS);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;

	for (unsigned i = 0; i < WORKERS; i++)
		crew_post(&s->crew->members[i], &s->workers[i].end);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(s->workers[i].thread, NULL);
	crew_leave(&s->control);
	loop_free(&s->control.loop);
	crew_free(&s->crew);
	assert_null(s->crew);
	mem_free(s);
	return 0;
}

/* ---- calls ---- */

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

/* Also on a machine that is so busy that a thread does not run for a while. */
static void call_surely(struct crew_member *member, crew_fn *fn, void *ctx)
{
	while (!crew_call(member, fn, ctx))
		sched_yield();
}

static void call_runs_on_its_member(void **state)
{
	struct scene *s = *state;

	for (unsigned i = 0; i < WORKERS; i++) {
		struct visit v = {.count = 0};
		call_surely(&s->crew->members[i], visited, &v);
		assert_int_equal(v.count, 1);
		assert_ptr_equal(v.sites[0], &s->workers[i].site);
		assert_true(pthread_equal(v.thread, s->workers[i].thread));
	}
	struct visit v = {.count = 0};
	assert_true(crew_call(crew_control(s->crew), visited, &v));
	assert_int_equal(v.count, 1);
	assert_ptr_equal(v.sites[0], &s->control);
	assert_true(pthread_equal(v.thread, pthread_self()));
}

static void each_site_once_and_the_own_last(void **state)
{
	struct scene *s = *state;
	struct visit v;

	do
		v.count = 0;
	while (crew_each(&s->control, visited, &v) > 0);
	assert_int_equal(v.count, WORKERS + 1);
	for (unsigned i = 0; i < WORKERS; i++)
		assert_ptr_equal(v.sites[i], &s->workers[i].site);
	assert_ptr_equal(v.sites[WORKERS], &s->control);
}

static void alone(void **state)
{
	(void)state;
	struct site site = {.crew = NULL};
	struct visit v = {.count = 0};

	list_init(&site.clients);
	list_init(&site.login_clients);
	assert_true(crew_is_control(&site));
	assert_int_equal(crew_site_count(&site), 1);
	assert_int_equal(crew_each(&site, visited, &v), 0);
	assert_int_equal(v.count, 1);
	assert_ptr_equal(v.sites[0], &site);
	crew_count_client(&site, 1);
	assert_int_equal(crew_client_count(&site), 0);
}

/* ---- a worker that stands still ---- */

struct obstacle {
	struct letter letter;
	sem_t begun, gate;
};

static void stand_still(struct letter *letter)
{
	struct obstacle *o = container_of(letter, struct obstacle, letter);

	sem_post(&o->begun);
	sem_wait(&o->gate);
}

/* Returns when the member is in the middle of something that ends with the gate. */
static void stop_member(struct crew_member *member, struct obstacle *o)
{
	sem_init(&o->begun, 0, 0);
	sem_init(&o->gate, 0, 0);
	o->letter.open = stand_still;
	crew_post(member, &o->letter);
	sem_wait(&o->begun);
}

struct sign {
	struct letter letter;
	sem_t seen;
};

static void sign_seen(struct letter *letter)
{
	sem_post(&container_of(letter, struct sign, letter)->seen);
}

/* All that was posted before is opened. */
static void drain(struct crew_member *member)
{
	struct sign sign = {.letter.open = sign_seen};

	sem_init(&sign.seen, 0, 0);
	crew_post(member, &sign.letter);
	sem_wait(&sign.seen);
	sem_destroy(&sign.seen);
}

static void a_call_is_given_up(void **state)
{
	struct scene *s = *state;
	struct crew_member *member = &s->crew->members[1];
	struct visit given_up = {.count = 0}, v = {.count = 0};
	struct obstacle o;

	stop_member(member, &o);
	assert_false(crew_call(member, visited, &given_up));
	assert_true(member->is_silent);
	/* The next one posts nothing: nobody would open it either. */
	assert_false(crew_call(member, visited, &given_up));
	sem_post(&o.gate);
	drain(member);
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

static void read_visits(struct site *site, void *ctx)
{
	uint64_t *visits = ctx;

	*visits = site->next_id;
}

static void all_are_visited_the_silent_one_later(void **state)
{
	struct scene *s = *state;
	struct crew_member *member = &s->crew->members[0];
	uint64_t visits = 7;
	struct obstacle o;

	stop_member(member, &o);
	crew_all(&s->control, count_visit);
	assert_int_equal(s->control.next_id, 1);
	assert_int_equal(s->workers[0].site.next_id, 0);
	/* What has left the silent one now has missed the order where it comes. */
	unsigned before = member->order;
	assert_true(crew_has_missed(crew_control(s->crew), before));
	assert_false(crew_has_missed(member, before));
	sem_post(&o.gate);
	/* What is asked for later comes later. */
	call_surely(member, read_visits, &visits);
	assert_int_equal(visits, 1);
	assert_int_equal(member->order, crew_control(s->crew)->order);
	assert_false(crew_has_missed(crew_control(s->crew), member->order));
	for (unsigned i = 1; i < WORKERS; i++) {
		drain(&s->crew->members[i]);
		call_surely(&s->crew->members[i], read_visits, &visits);
		assert_int_equal(visits, 1);
	}
}

static void others_are_visited_meanwhile(void **state)
{
	struct scene *s = *state;
	struct crew_member *member = &s->crew->members[0];
	struct obstacle o;
	struct visit v;

	stop_member(member, &o);
	do
		v.count = 0;
	while (crew_each(&s->control, visited, &v) > 1);
	assert_int_equal(v.count, WORKERS);
	for (unsigned i = 0; i < v.count; i++)
		assert_ptr_not_equal(v.sites[i], &s->workers[0].site);
	sem_post(&o.gate);
	drain(member);
}

/* ---- clients ---- */

static void new_clients_are_spread_evenly(void **state)
{
	struct scene *s = *state;
	unsigned picked[WORKERS + 1] = {0};

	for (int i = 0; i < 10 * WORKERS; i++) {
		picked[crew_pick(s->crew)->index]++;
		for (int k = 0; k < WORKERS; k++)
			for (int n = 0; n < k; n++)
				assert_true(picked[k] <= picked[n] + 1 &&
					    picked[n] <= picked[k] + 1);
	}
	assert_int_equal(picked[WORKERS], 0);
	assert_int_equal(crew_client_count(&s->control), 10 * WORKERS);
}

static void who_stands_still_gets_no_client(void **state)
{
	struct scene *s = *state;
	struct crew_member *member = &s->crew->members[1];
	struct visit v = {.count = 0};
	struct obstacle o;

	stop_member(member, &o);
	assert_false(crew_call(member, visited, &v));
	for (int i = 0; i < 4; i++)
		assert_int_not_equal(crew_pick(s->crew)->index, 1);
	sem_post(&o.gate);
	drain(member);
	assert_int_equal(crew_pick(s->crew)->index, 1);
}

/* Nobody has called it yet, but it does not open its letters. */
static void who_opens_no_letter_gets_no_client(void **state)
{
	struct scene *s = *state;
	struct crew_member *member = &s->crew->members[1];
	struct obstacle o;

	stop_member(member, &o);
	assert_false(crew_is_deaf(s->crew, 1));
	struct sign sign = {.letter.open = sign_seen};
	sem_init(&sign.seen, 0, 0);
	crew_post(member, &sign.letter);
	while (!crew_is_deaf(s->crew, 1))
		;
	assert_false(member->is_silent);
	for (int i = 0; i < 4 * WORKERS; i++)
		assert_int_not_equal(crew_pick(s->crew)->index, 1);
	sem_post(&o.gate);
	drain(member);
	assert_false(crew_is_deaf(s->crew, 1));
	assert_int_equal(crew_pick(s->crew)->index, 1);
	crew_unpick(member);
	assert_int_equal(member->client_count, 0);
	sem_destroy(&sign.seen);
}

static void the_one_with_the_fewest_is_next(void **state)
{
	struct scene *s = *state;

	for (int i = 0; i < 4 * WORKERS; i++)
		crew_pick(s->crew);
	crew_count_client(&s->workers[2].site, -3);
	crew_count_client(&s->workers[1].site, -1);
	crew_count_client(&s->control, 1); /* a console counts, but elsewhere */
	assert_int_equal(crew_client_count(&s->control), 4 * WORKERS - 3);
	assert_int_equal(crew_client_count(&s->workers[0].site), 4 * WORKERS - 3);
	assert_int_equal(crew_pick(s->crew)->index, 2);
	assert_int_equal(crew_pick(s->crew)->index, 2);
	assert_int_not_equal(crew_pick(s->crew)->index, 0);
	assert_int_not_equal(crew_pick(s->crew)->index, 0);
	assert_int_equal(s->crew->members[1].client_count, 4);
	assert_int_equal(s->crew->members[2].client_count, 4);
}

/* Where all are alike it is another one each time, also when clients go at once. */
static void nobody_is_the_favourite(void **state)
{
	struct scene *s = *state;
	unsigned picked[WORKERS] = {0};

	for (int i = 0; i < 4 * WORKERS; i++) {
		struct crew_member *member = crew_pick(s->crew);
		picked[member->index]++;
		crew_count_client(member->site, -1);
	}
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(picked[i], 4);
	assert_int_equal(crew_client_count(&s->control), 0);
}

static void places(void **state)
{
	struct scene *s = *state;

	assert_int_equal(crew_site_count(&s->control), WORKERS + 1);
	assert_true(crew_is_control(&s->control));
	for (unsigned i = 0; i < WORKERS; i++) {
		assert_false(crew_is_control(&s->workers[i].site));
		assert_int_equal(s->workers[i].site.crew->index, i);
	}
	assert_ptr_equal(crew_control(s->crew)->site, &s->control);
}

#define CREW_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CREW_TEST(places),
	    CREW_TEST(call_runs_on_its_member),
	    CREW_TEST(each_site_once_and_the_own_last),
	    cmocka_unit_test(alone),
	    CREW_TEST(a_call_is_given_up),
	    CREW_TEST(all_are_visited_the_silent_one_later),
	    CREW_TEST(others_are_visited_meanwhile),
	    CREW_TEST(new_clients_are_spread_evenly),
	    CREW_TEST(who_stands_still_gets_no_client),
	    CREW_TEST(who_opens_no_letter_gets_no_client),
	    CREW_TEST(the_one_with_the_fewest_is_next),
	    CREW_TEST(nobody_is_the_favourite),
	};

	return cmocka_run_group_tests_name("crew", tests, NULL, NULL);
}
