/*
 * Starts and ends the threads of workers.
 */
#include "daemon/team.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/daemon.h"
#include "daemon/site_build.h"
#include "login/listen.h"
#include "session/crew.h"

static const struct crew_ops crew_ops = {
    .admit = listen_admit_new,
    .readmit = listen_readmit,
};

/* The process exits without waiting longer for its workers.  One that stands still
 * keeps the others from ending, so the time is for all of them. */
enum { END_PATIENCE_S = 5 };

/* Descriptors of a worker without clients: event loop and engine, its time, mailbox,
 * and the wake-ups of name look-ups and helper threads. */
enum { DESCRIPTORS = 12 };

struct worker {
	struct site site;
	pthread_t thread;
	struct team *team;
	unsigned index;
	struct letter stop;
	bool has_begun, is_up, has_failed, has_ended; /* under team->lock */
	bool is_empty;
	struct err err;
};

struct team {
	struct daemon *d;
	const struct settings *settings; /* valid until all workers are up */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned count;
	unsigned at_work; /* threads that may still send letters to others */
	struct worker workers[];
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

unsigned team_size(const struct settings *settings)
{
	unsigned wanted =
	    settings->workers > 0 ? (unsigned)settings->workers : available_cpus();

	return wanted < CREW_MOST ? wanted : CREW_MOST;
}

unsigned team_descriptors(unsigned count)
{
	return count > 1 ? count * DESCRIPTORS : 0;
}

/* ---- a worker's thread ---- */

static void note(struct worker *w, bool *what)
{
	pthread_mutex_lock(&w->team->lock);
	*what = true;
	pthread_cond_broadcast(&w->team->changed);
	pthread_mutex_unlock(&w->team->lock);
}

static void count_at_work(struct team *team, int change)
{
	pthread_mutex_lock(&team->lock);
	team->at_work += (unsigned)change;
	pthread_cond_broadcast(&team->changed);
	pthread_mutex_unlock(&team->lock);
}

/* Waits until no worker can send letters any more, so that no mailbox is freed too
 * early. */
static void await_end_of_all(struct team *team)
{
	count_at_work(team, -1);
	pthread_mutex_lock(&team->lock);
	while (team->at_work > 0)
		pthread_cond_wait(&team->changed, &team->lock);
	pthread_mutex_unlock(&team->lock);
}

static void stop(struct letter *letter)
{
	struct worker *w = container_of(letter, struct worker, stop);

	loop_stop(w->site.loop);
}

static void name_thread(const struct worker *w)
{
	char name[16];

	snprintf(name, sizeof(name), "worker %u", w->index);
	(void)pthread_setname_np(pthread_self(), name);
}

/* Clients must not notice which worker serves them, so all workers have the same secret
 * for made-up salts. */
static void take_after_control(struct site *site, const struct site *control)
{
	memcpy(site->mock_secret, control->mock_secret, sizeof(site->mock_secret));
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct daemon *d = w->team->d;

	name_thread(w);
	if (site_build(&w->site, w->team->settings, d->crew, w->index, &w->err) == 0) {
		take_after_control(&w->site, &d->site);
		note(w, &w->is_up);
		site_build_run(&w->site);
	} else {
		note(w, &w->has_failed);
	}
	w->is_empty = w->site.loop && site_build_empty(&w->site) == 0;
	await_end_of_all(w->team);
	if (w->is_empty)
		site_build_free(&w->site);
	note(w, &w->has_ended);
	return NULL;
}

/* ---- start ---- */

static int start_thread(struct worker *w, struct err *err)
{
	sigset_t all, old;

	count_at_work(w->team, 1);
	/* the control thread handles all signals */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int failure = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	w->has_begun = !failure;
	if (!failure)
		return 0;
	count_at_work(w->team, -1);
	return err_set(err, "cannot start a worker: %s", strerror(failure));
}

/* Waits until the worker has built its site.  -1 and err: it failed. */
static int await_up(struct worker *w, struct err *err)
{
	pthread_mutex_lock(&w->team->lock);
	while (!w->is_up && !w->has_failed)
		pthread_cond_wait(&w->team->changed, &w->team->lock);
	bool is_up = w->is_up;
	pthread_mutex_unlock(&w->team->lock);
	if (!is_up)
		*err = w->err;
	return is_up ? 0 : -1;
}

static void worker_init(struct worker *w, struct team *team, unsigned index)
{
	const struct site *control = &team->d->site;

	w->team = team;
	w->index = index;
	w->stop.open = stop;
	mem_init(&w->site.mem);
	w->site.log = log_for_worker(control->log, index);
	w->site.verbs = control->verbs;
	w->site.version = control->version;
}

static struct team *team_new(struct daemon *d, unsigned count)
{
	struct team *team = mem_zero(sizeof(*team) + count * sizeof(team->workers[0]));
	pthread_condattr_t attributes;

	team->d = d;
	team->count = count;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&team->lock, NULL);
	pthread_cond_init(&team->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	for (unsigned i = 0; i < count; i++)
		worker_init(&team->workers[i], team, i);
	return team;
}

int team_start(struct daemon *d, const struct settings *settings, struct err *err)
{
	unsigned count = d->crew ? d->crew->worker_count : 0;

	if (count == 0)
		return 0;
	d->team = team_new(d, count);
	d->team->settings = settings;
	d->crew->ops = &crew_ops;
	/* One after the other, so that it is clear which one fails. */
	for (unsigned i = 0; i < count; i++)
		if (start_thread(&d->team->workers[i], err) < 0 ||
		    await_up(&d->team->workers[i], err) < 0)
			return -1;
	return 0;
}

/* ---- end ---- */

/* Waits until the worker has ended.  False: it does not end in time. */
static bool may_join(struct worker *w, const struct timespec *end)
{
	int late = 0;

	pthread_mutex_lock(&w->team->lock);
	while (!w->has_ended && late == 0)
		late = pthread_cond_timedwait(&w->team->changed, &w->team->lock, end);
	bool has_ended = w->has_ended;
	pthread_mutex_unlock(&w->team->lock);
	if (has_ended)
		pthread_join(w->thread, NULL);
	return has_ended;
}

void team_stop(struct daemon *d)
{
	struct team *team = d->team;
	struct timespec end;
	bool are_all_gone = true;

	if (!team)
		return;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += END_PATIENCE_S;
	for (unsigned i = 0; i < team->count; i++)
		if (team->workers[i].is_up)
			crew_post(&d->crew->members[i], &team->workers[i].stop);
	for (unsigned i = 0; i < team->count; i++)
		if (team->workers[i].has_begun && !may_join(&team->workers[i], &end))
			are_all_gone = false;
	/* memory that a worker still uses is freed by the exit */
	if (!are_all_gone)
		return;
	for (unsigned i = 0; i < team->count; i++)
		log_free(&team->workers[i].site.log);
	pthread_mutex_destroy(&team->lock);
	pthread_cond_destroy(&team->changed);
	mem_free(team);
	d->team = NULL;
}
