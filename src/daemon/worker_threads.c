/*
 * Starts and ends the threads of workers.
 */
#include "daemon/worker_threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/daemon.h"
#include "daemon/site_build.h"
#include "login/startup_phase.h"
#include "session/workers.h"

static const struct workers_ops workers_ops = {
    .admit = startup_phase_admit_new,
    .readmit = startup_phase_readmit,
};

/* The process exits without waiting longer for its workers.  One that stands still
 * keeps the others from ending, so the time is for all of them. */
enum { END_PATIENCE_S = 5 };

/* Descriptors of a worker without clients: event loop and engine, its time, mailbox,
 * and the wake-ups of name look-ups and helper threads. */
enum { DESCRIPTORS = 12 };

struct worker_thread {
	struct site site;
	pthread_t thread;
	struct worker_threads *threads;
	unsigned index;
	struct thread_message stop;
	bool has_begun, is_up, has_failed, has_ended; /* under threads->lock */
	bool is_empty;
	struct err err;
};

struct worker_threads {
	struct daemon *d;
	const struct settings *settings; /* valid until all workers are up */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned count;
	unsigned at_work; /* threads that may still send messages to others */
	struct worker_thread threads[];
};

/* ---- how many ---- */

/* The number of CPUs that the quota of the control group allows; 0: there is no quota.
 */
static unsigned quota_cpus(void)
{
	FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
	unsigned long long quota = 0, period = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%llu %llu", &quota, &period) != 2)
		quota = period = 0;
	fclose(file);
	return period ? (unsigned)((quota + period - 1) / period) : 0;
}

static unsigned available_cpus(void)
{
	unsigned quota = quota_cpus(), count = 1;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		count = (unsigned)CPU_COUNT(&set);
	if (quota && quota < count)
		count = quota;
	return count ? count : 1;
}

unsigned worker_threads_count(const struct settings *settings)
{
	unsigned wanted =
	    settings->workers > 0 ? (unsigned)settings->workers : available_cpus();

	return wanted < WORKERS_MOST ? wanted : WORKERS_MOST;
}

unsigned worker_threads_descriptors(unsigned count)
{
	return count > 1 ? count * DESCRIPTORS : 0;
}

/* ---- a worker's thread ---- */

static void note(struct worker_thread *w, bool *what)
{
	pthread_mutex_lock(&w->threads->lock);
	*what = true;
	pthread_cond_broadcast(&w->threads->changed);
	pthread_mutex_unlock(&w->threads->lock);
}

static void count_at_work(struct worker_threads *threads, int change)
{
	pthread_mutex_lock(&threads->lock);
	threads->at_work += (unsigned)change;
	pthread_cond_broadcast(&threads->changed);
	pthread_mutex_unlock(&threads->lock);
}

static void stop(struct thread_message *message)
{
	struct worker_thread *w = container_of(message, struct worker_thread, stop);

	loop_stop(w->site.loop);
}

static void *worker_main(void *arg)
{
	struct worker_thread *w = arg;
	struct daemon *d = w->threads->d;
	char name[16];

	snprintf(name, sizeof(name), "worker %u", w->index);
	(void)pthread_setname_np(pthread_self(), name);
	if (site_build(&w->site, w->threads->settings, d->workers, w->index, &w->err) ==
	    0) {
		/* made-up salts must not tell which worker serves a client */
		memcpy(w->site.mock_secret, d->site.mock_secret,
		    sizeof(w->site.mock_secret));
		note(w, &w->is_up);
		site_build_run(&w->site);
	} else {
		note(w, &w->has_failed);
	}
	w->is_empty = w->site.loop && site_build_empty(&w->site) == 0;
	/* waits until no worker can send messages any more, so that no mailbox is freed
	 * too early */
	struct worker_threads *threads = w->threads;
	count_at_work(threads, -1);
	pthread_mutex_lock(&threads->lock);
	while (threads->at_work > 0)
		pthread_cond_wait(&threads->changed, &threads->lock);
	pthread_mutex_unlock(&threads->lock);
	if (w->is_empty)
		site_build_free(&w->site);
	note(w, &w->has_ended);
	return NULL;
}

/* ---- start ---- */

static int start_thread(struct worker_thread *w, struct err *err)
{
	sigset_t all, old;

	count_at_work(w->threads, 1);
	/* the control thread handles all signals */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int failure = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	w->has_begun = !failure;
	if (!failure)
		return 0;
	count_at_work(w->threads, -1);
	return err_set(err, "cannot start a worker: %s", strerror(failure));
}

/* Waits until the worker has built its site.  -1 and err: it failed. */
static int await_up(struct worker_thread *w, struct err *err)
{
	pthread_mutex_lock(&w->threads->lock);
	while (!w->is_up && !w->has_failed)
		pthread_cond_wait(&w->threads->changed, &w->threads->lock);
	bool is_up = w->is_up;
	pthread_mutex_unlock(&w->threads->lock);
	if (!is_up)
		*err = w->err;
	return is_up ? 0 : -1;
}

static void thread_init(
    struct worker_thread *w, struct worker_threads *threads, unsigned index)
{
	const struct site *control = &threads->d->site;

	w->threads = threads;
	w->index = index;
	w->stop.handle = stop;
	mem_init(&w->site.mem);
	w->site.log = log_for_worker(control->log, index);
	w->site.verbs = control->verbs;
	w->site.version = control->version;
}

static struct worker_threads *worker_threads_new(struct daemon *d, unsigned count)
{
	struct worker_threads *threads =
	    mem_zero(sizeof(*threads) + count * sizeof(threads->threads[0]));
	pthread_condattr_t attributes;

	threads->d = d;
	threads->count = count;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&threads->lock, NULL);
	pthread_cond_init(&threads->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	for (unsigned i = 0; i < count; i++)
		thread_init(&threads->threads[i], threads, i);
	return threads;
}

int worker_threads_start(
    struct daemon *d, const struct settings *settings, struct err *err)
{
	unsigned count = d->workers ? d->workers->worker_count : 0;

	if (count == 0)
		return 0;
	d->threads = worker_threads_new(d, count);
	d->threads->settings = settings;
	d->workers->ops = &workers_ops;
	/* One after the other, so that it is clear which one fails. */
	for (unsigned i = 0; i < count; i++)
		if (start_thread(&d->threads->threads[i], err) < 0 ||
		    await_up(&d->threads->threads[i], err) < 0)
			return -1;
	return 0;
}

/* ---- end ---- */

/* Waits until the worker has ended.  False: it does not end in time. */
static bool join_until(struct worker_thread *w, const struct timespec *end)
{
	int late = 0;

	pthread_mutex_lock(&w->threads->lock);
	while (!w->has_ended && late == 0)
		late = pthread_cond_timedwait(
		    &w->threads->changed, &w->threads->lock, end);
	bool has_ended = w->has_ended;
	pthread_mutex_unlock(&w->threads->lock);
	if (has_ended)
		pthread_join(w->thread, NULL);
	return has_ended;
}

void worker_threads_stop(struct daemon *d)
{
	struct worker_threads *threads = d->threads;
	struct timespec end;
	bool are_all_gone = true;

	if (!threads)
		return;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += END_PATIENCE_S;
	for (unsigned i = 0; i < threads->count; i++)
		if (threads->threads[i].is_up)
			workers_post(
			    &d->workers->members[i], &threads->threads[i].stop);
	for (unsigned i = 0; i < threads->count; i++)
		are_all_gone &= !threads->threads[i].has_begun ||
				join_until(&threads->threads[i], &end);
	/* memory that a worker still uses is freed by the exit */
	if (!are_all_gone)
		return;
	for (unsigned i = 0; i < threads->count; i++)
		log_free(&threads->threads[i].site.log);
	pthread_mutex_destroy(&threads->lock);
	pthread_cond_destroy(&threads->changed);
	mem_free(threads);
	d->threads = NULL;
}
