/* Helper threads: order, limits, cancelling at every stage, shutdown, key
 * derivation. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/helpers.h"
#include "auth/key_cache.h"
#include "base/mem.h"

/* What a test sees of its jobs.  Only the loop's thread writes it, except the
 * semaphores. */
struct seen {
	struct helpers *helpers;
	struct err err;
	char order[101];     /* names of the jobs in the order of done() */
	unsigned discarded;  /* number of discard() calls */
	sem_t entered, gate; /* run() has begun; run() may end */
	sem_t gone;          /* discard() was called */
	struct work *victim; /* done() of the job '!' cancels this one */
};

struct work {
	struct helpers_job job;
	struct seen *seen;
	char name;
	bool is_gated;
	/* written by run() */
	bool has_run, has_signals, was_cancelled;
	int nice;
	pthread_t thread;
};

static struct work *work_of(struct helpers_job *job)
{
	return container_of(job, struct work, job);
}

static void work_run(struct helpers_job *job)
{
	struct work *work = work_of(job);
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	work->has_signals = !sigismember(&blocked, SIGTERM);
	work->thread = pthread_self();
	work->nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
	if (work->is_gated) {
		sem_post(&work->seen->entered);
		sem_wait(&work->seen->gate);
	}
	work->was_cancelled = helpers_is_cancelled(job);
	work->has_run = true;
}

static void work_done(struct helpers_job *job)
{
	struct work *work = work_of(job);
	size_t len = strlen(work->seen->order);

	assert_true(work->has_run);
	assert_false(work->has_signals);
	assert_false(work->was_cancelled);
	if (work->job.kind == HELPERS_COMPUTE || work->job.kind == HELPERS_READ)
		assert_true(work->nice >= 10);
	else
		assert_int_equal(work->nice, getpriority(PRIO_PROCESS, 0));
	assert_false(pthread_equal(work->thread, pthread_self()));
	work->seen->order[len] = work->name;
	if (work->name == '!')
		helpers_cancel(&work->seen->victim->job);
}

static void work_discard(struct helpers_job *job)
{
	struct work *work = work_of(job);

	struct seen *seen = work->seen;

	seen->discarded++;
	mem_free(work);
	sem_post(&seen->gone);
}

static struct work *work_new(
    struct seen *seen, enum helpers_kind kind, char name, bool is_gated)
{
	struct work *work = mem_zero(sizeof(*work));

	work->job.kind = kind;
	work->job.cost = 1;
	work->job.run = work_run;
	work->job.done = work_done;
	work->job.discard = work_discard;
	work->seen = seen;
	work->name = name;
	work->is_gated = is_gated;
	return work;
}

static struct work *submit(
    struct seen *seen, enum helpers_kind kind, char name, bool is_gated)
{
	struct work *work = work_new(seen, kind, name, is_gated);
	assert_int_equal(helpers_submit(seen->helpers, &work->job, &seen->err), 0);
	return work;
}

static void seen_init(struct seen *seen, unsigned threads, unsigned queue_max)
{
	memset(seen, 0, sizeof(*seen));
	sem_init(&seen->entered, 0, 0);
	sem_init(&seen->gate, 0, 0);
	sem_init(&seen->gone, 0, 0);
	seen->helpers = helpers_new(threads, queue_max, NULL, &seen->err);
	assert_non_null(seen->helpers);
}

static void seen_done(struct seen *seen)
{
	helpers_free(&seen->helpers);
	assert_null(seen->helpers);
	sem_destroy(&seen->entered);
	sem_destroy(&seen->gate);
	sem_destroy(&seen->gone);
}

static void wait_readable(struct seen *seen)
{
	struct pollfd watch = {.fd = helpers_fd(seen->helpers), .events = POLLIN};
	assert_int_equal(poll(&watch, 1, 60000), 1);
}

static bool is_readable(const struct seen *seen)
{
	struct pollfd watch = {.fd = helpers_fd(seen->helpers), .events = POLLIN};
	return poll(&watch, 1, 0) == 1;
}

/* Collects results as the loop does, until that many jobs were discarded. */
static void collect(struct seen *seen, unsigned discarded)
{
	while (seen->discarded < discarded) {
		wait_readable(seen);
		helpers_collect(seen->helpers);
	}
	assert_int_equal(seen->discarded, discarded);
}

static void test_nothing_to_do(void **state)
{
	struct seen seen;

	(void)state;
	seen_init(&seen, 4, 20);
	assert_false(is_readable(&seen));
	helpers_collect(seen.helpers);
	seen_done(&seen);
	helpers_free(&seen.helpers);
}

static void test_in_order(void **state)
{
	struct seen seen;

	(void)state;
	seen_init(&seen, 1, 20);
	for (char name = 'a'; name <= 'j'; name++)
		submit(&seen, HELPERS_ASK, name, false);
	collect(&seen, 10);
	assert_string_equal(seen.order, "abcdefghij");
	/* A job that finished during the last call is collected already, but has made
	 * the descriptor readable. */
	helpers_collect(seen.helpers);
	assert_false(is_readable(&seen));
	submit(&seen, HELPERS_COMPUTE, 'k', false);
	collect(&seen, 11);
	assert_string_equal(seen.order, "abcdefghijk");
	seen_done(&seen);
}

/* Each kind of job has as many jobs running at a time as it has threads. */
static void test_side_by_side(void **state)
{
	struct seen seen;

	(void)state;
	seen_init(&seen, 3, 20);
	for (char name = 'a'; name <= 'c'; name++)
		submit(&seen, HELPERS_ASK, name, true);
	for (int i = 0; i < 3; i++)
		sem_wait(&seen.entered);
	submit(&seen, HELPERS_ASK, 'd', false);
	assert_int_equal(helpers_waiting(seen.helpers, HELPERS_ASK), 1);
	submit(&seen, HELPERS_COMPUTE, 'x', false);
	submit(&seen, HELPERS_COMPUTE, 'y', false);
	collect(&seen, 2);
	assert_string_equal(seen.order, "xy");
	/* an account job does not wait for a directory job, a read job for none */
	submit(&seen, HELPERS_READ, 'r', false);
	collect(&seen, 3);
	submit(&seen, HELPERS_ACCOUNT, 'z', false);
	collect(&seen, 4);
	assert_string_equal(seen.order, "xyrz");
	assert_int_equal(helpers_waiting(seen.helpers, HELPERS_ASK), 1);
	for (int i = 0; i < 3; i++)
		sem_post(&seen.gate);
	collect(&seen, 8);
	seen_done(&seen);
}

static void test_full_queue(void **state)
{
	struct seen seen;
	struct work *refused;

	(void)state;
	seen_init(&seen, 1, 2);
	submit(&seen, HELPERS_ASK, 'a', true);
	sem_wait(&seen.entered);
	submit(&seen, HELPERS_ASK, 'b', false);
	submit(&seen, HELPERS_ASK, 'c', false);
	refused = work_new(&seen, HELPERS_ASK, 'd', false);
	assert_int_equal(helpers_submit(seen.helpers, &refused->job, &seen.err), -1);
	assert_string_equal(
	    seen.err.text, "too many logins are waiting for external authentication");
	assert_string_equal(seen.err.sqlstate, "53300");
	assert_int_equal(seen.discarded, 0);
	/* The other queue has room. */
	submit(&seen, HELPERS_COMPUTE, 'x', false);
	collect(&seen, 1);
	sem_post(&seen.gate);
	collect(&seen, 4);
	assert_string_equal(seen.order, "xabc");
	assert_int_equal(helpers_submit(seen.helpers, &refused->job, &seen.err), 0);
	collect(&seen, 5);
	assert_string_equal(seen.order, "xabcd");
	seen_done(&seen);
}

/* Without a queue, as many jobs are taken as there are threads. */
static void test_no_queue(void **state)
{
	struct seen seen;
	struct work *refused;

	(void)state;
	seen_init(&seen, 2, 0);
	submit(&seen, HELPERS_ASK, 'a', true);
	submit(&seen, HELPERS_ASK, 'b', true);
	refused = work_new(&seen, HELPERS_ASK, 'c', false);
	assert_int_equal(helpers_submit(seen.helpers, &refused->job, NULL), -1);
	mem_free(refused);
	sem_post(&seen.gate);
	sem_post(&seen.gate);
	collect(&seen, 2);
	seen_done(&seen);
}

static void test_cancel(void **state)
{
	struct seen seen;
	struct work *running, *waiting, *finished;

	(void)state;
	seen_init(&seen, 1, 5);
	finished = submit(&seen, HELPERS_ASK, 'f', false);
	wait_readable(&seen);
	running = submit(&seen, HELPERS_ASK, 'r', true);
	sem_wait(&seen.entered);
	waiting = submit(&seen, HELPERS_ASK, 'w', false);
	submit(&seen, HELPERS_ASK, 'z', false);

	helpers_cancel(&waiting->job); /* the job never runs */
	assert_int_equal(seen.discarded, 1);
	helpers_cancel(&finished->job); /* the result of the job is thrown away */
	assert_int_equal(seen.discarded, 2);
	helpers_cancel(&running->job); /* the job goes on, but its result is dropped */
	assert_int_equal(seen.discarded, 2);
	assert_string_equal(seen.order, "");
	sem_post(&seen.gate);
	collect(&seen, 4);
	assert_string_equal(seen.order, "z");
	seen_done(&seen);
}

static void test_cancel_from_done(void **state)
{
	struct seen seen;

	(void)state;
	seen_init(&seen, 1, 5);
	submit(&seen, HELPERS_ASK, '!', false);
	seen.victim = submit(&seen, HELPERS_ASK, 'v', false);
	submit(&seen, HELPERS_ASK, 'z', true);
	sem_wait(&seen.entered); /* both jobs before it are finished */
	sem_post(&seen.gate);
	collect(&seen, 3);
	assert_string_equal(seen.order, "!z");
	seen_done(&seen);
}

/* Shutdown with jobs that wait, one that runs, and one finished but not collected. */
static void test_end(void **state)
{
	struct seen seen;

	(void)state;
	seen_init(&seen, 1, 5);
	submit(&seen, HELPERS_ASK, 'f', false);
	wait_readable(&seen);
	submit(&seen, HELPERS_ASK, 'r', true);
	sem_wait(&seen.entered);
	submit(&seen, HELPERS_ASK, 'w', false);
	sem_post(&seen.gate);
	seen_done(&seen);
	assert_string_equal(seen.order, "");
	assert_int_equal(seen.discarded, 3);
}

/* A job that hangs does not keep the process from ending. */
static void test_end_while_a_job_hangs(void **state)
{
	struct seen seen;

	(void)state;
	seen_init(&seen, 1, 5);
	submit(&seen, HELPERS_ASK, 'a', true);
	submit(&seen, HELPERS_ASK, 'b', true);
	sem_wait(&seen.entered);
	helpers_free(&seen.helpers);
	assert_null(seen.helpers);
	assert_int_equal(seen.discarded, 0);
	/* When the job ends after all, all its memory is freed. */
	sem_post(&seen.gate);
	sem_wait(&seen.gone);
	sem_wait(&seen.gone);
	assert_int_equal(seen.discarded, 2);
	seen_done(&seen);
}

static void test_many(void **state)
{
	struct seen seen;
	struct work *works[200];
	unsigned total = 0;

	(void)state;
	seen_init(&seen, 4, 300);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 200; i++)
			works[i] = submit(
			    &seen, i % 3 ? HELPERS_ASK : HELPERS_COMPUTE, 'm', false);
		for (int i = 0; i < 200; i += 2)
			helpers_cancel(&works[i]->job);
		total += 200;
		collect(&seen, total);
		assert_int_equal(strlen(seen.order), 100);
		memset(seen.order, 0, sizeof(seen.order));
	}
	seen_done(&seen);
}

static void note_salted(struct key_job *derivation)
{
	uint8_t expected[SCRAM_KEY_LEN];

	scram_salted_password("pencil", (const uint8_t *)"salt", 4, 5, expected);
	assert_string_equal(derivation->due.password, "pencil");
	assert_memory_equal(derivation->salted, expected, SCRAM_KEY_LEN);
	*(int *)derivation->owner += 1;
}

static void test_derivation(void **state)
{
	char password[] = "pencil";
	uint8_t salt[] = {'s', 'a', 'l', 't'};
	struct scram_due due = {password, salt, sizeof(salt), 5};
	struct key_job *one, *other;
	struct seen seen;
	int count = 0;

	(void)state;
	seen_init(&seen, 1, 1);
	one = key_job_new(&due, 1, note_salted, &count);
	other = key_job_new(&due, 1, note_salted, &count);
	/* The job copies its input. */
	memset(password, 'x', sizeof(password) - 1);
	memset(salt, 0, sizeof(salt));
	assert_int_equal(helpers_submit(seen.helpers, &one->job, NULL), 0);
	assert_int_equal(helpers_submit(seen.helpers, &other->job, NULL), 0);
	helpers_cancel(&other->job);
	while (count == 0) {
		wait_readable(&seen);
		helpers_collect(seen.helpers);
	}
	one = key_job_new(&due, 1, note_salted, &count);
	key_job_discard(one);
	seen_done(&seen);
	assert_int_equal(count, 1);
}

/* ---- one at a time ---- */

static atomic_int inside, inside_at_most, through;

static void go_through(void)
{
	int count = atomic_fetch_add(&inside, 1) + 1;

	if (count > atomic_load(&inside_at_most))
		atomic_store(&inside_at_most, count);
	sched_yield();
	atomic_fetch_sub(&inside, 1);
	atomic_fetch_add(&through, 1);
}

static void passer_run(struct helpers_job *job)
{
	for (int i = 0; i < 200; i++)
		helpers_alone(job, go_through);
}

static void passer_nothing(struct helpers_job *job)
{
	(void)job;
}

/* Helper threads of several sites share one mutex. */
static void test_shared_mutex(void **state)
{
	struct helpers_mutex *mutex = helpers_mutex_new();
	struct helpers *helpers[2];
	struct helpers_job jobs[2] = {{.kind = HELPERS_ASK}, {.kind = HELPERS_ASK}};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct helpers_job *job = &jobs[i];
		job->run = passer_run;
		job->done = job->discard = passer_nothing;
		helpers[i] = helpers_new(1, 1, mutex, NULL);
		assert_int_equal(helpers_submit(helpers[i], job, NULL), 0);
	}
	helpers_mutex_unref(&mutex);
	while (atomic_load(&through) < 400)
		sched_yield();
	for (int i = 0; i < 2; i++)
		helpers_free(&helpers[i]);
	assert_int_equal(atomic_load(&inside_at_most), 1);
}

/* A job of a kind with lanes: its name is its lane. */
static void submit_in_lane(struct seen *seen, char name, uint32_t cost)
{
	struct work *work = work_new(seen, HELPERS_COMPUTE, name, false);

	work->job.lane = (uint32_t)name;
	work->job.cost = cost;
	assert_int_equal(helpers_submit(seen->helpers, &work->job, &seen->err), 0);
}

/* Many derivations for one user delay one for another by a single one. */
static void lanes_take_turns(void **state)
{
	struct seen seen;
	(void)state;

	seen_init(&seen, 1, 1);
	submit(&seen, HELPERS_COMPUTE, '.', true);
	sem_wait(&seen.entered);
	for (int i = 0; i < 6; i++)
		submit_in_lane(&seen, 'a', 100);
	submit_in_lane(&seen, 'b', 100);
	for (int i = 0; i < 2; i++)
		submit_in_lane(&seen, 'c', 100);
	/* four short ones are worth a long one */
	for (int i = 0; i < 8; i++)
		submit_in_lane(&seen, 'd', 25);
	sem_post(&seen.gate);
	while (strlen(seen.order) < 18) {
		wait_readable(&seen);
		helpers_collect(seen.helpers);
	}
	assert_string_equal(seen.order, ".abcddddacddddaaaa");
	seen_done(&seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lanes_take_turns),
	    cmocka_unit_test(test_nothing_to_do),
	    cmocka_unit_test(test_in_order),
	    cmocka_unit_test(test_side_by_side),
	    cmocka_unit_test(test_full_queue),
	    cmocka_unit_test(test_no_queue),
	    cmocka_unit_test(test_cancel),
	    cmocka_unit_test(test_cancel_from_done),
	    cmocka_unit_test(test_end),
	    cmocka_unit_test(test_end_while_a_job_hangs),
	    cmocka_unit_test(test_shared_mutex),
	    cmocka_unit_test(test_many),
	    cmocka_unit_test(test_derivation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
