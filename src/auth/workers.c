/*
 * Helper threads with a limited queue for each kind of job, and the list of finished
 * jobs that the loop collects.  It does not know what the jobs do.
 */
#include "auth/workers.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

/* A thread that computes for long has this priority, and the kernel may give its
 * processor to another after this time. */
enum { HELPER_NICE = 10, HELPER_SLICE_NS = 100 * 1000 };
/* How long workers_free waits for running jobs.  PAM modules may take minutes and
 * cannot be stopped. */
enum { LAST_WAIT_SECONDS = 1 };
/* Lanes are told apart by their number modulo LANES.  The key of a job in the heap is
 * the time at which its turn comes, and below that its number, so that jobs of the same
 * time keep their order. */
enum { LANES = 1024, NUMBER_BITS = 20 };

/* The threads of one kind and the jobs that wait for them. */
struct crew {
	struct heap waiting; /* struct workers_job by .wait_node */
	size_t waiting_count;
	struct list running; /* struct workers_job by .node */
	uint64_t number;     /* of the job that was submitted last */
	/* The clock of the lanes: the turn of the job that was begun last.  It counts
	 * costs.  lanes: when each lane has used up its share. */
	uint64_t turn;
	uint64_t *lanes; /* NULL: jobs are done in their order */
	unsigned queue_max;
	unsigned threads_max, threads_count;
	pthread_t *threads;
	pthread_cond_t has_work;
	struct workers *workers;
};

struct workers_mutex {
	pthread_mutex_t lock;
	atomic_uint users;
};

struct workers {
	pthread_mutex_t lock; /* protects everything below up to is_abandoned */
	struct crew crews[WORKERS_KINDS];
	struct list finished;
	int is_ending;
	unsigned threads_left;      /* number of threads of all kinds */
	pthread_cond_t is_deserted; /* signalled when the last thread ends */
	/* workers_free no longer waits: the last thread frees this struct */
	int is_abandoned;
	/* written only at the start */
	/* one reference; must not be locked while lock is held */
	struct workers_mutex *mutex;
	int fd;
};

static void crew_init(
    struct crew *crew, struct workers *e, unsigned threads, unsigned queue_max)
{
	list_init(&crew->running);
	crew->queue_max = queue_max;
	crew->threads_max = threads;
	crew->threads = mem_zero(threads * sizeof(*crew->threads));
	pthread_cond_init(&crew->has_work, NULL);
	crew->workers = e;
}

struct workers_mutex *workers_mutex_new(void)
{
	struct workers_mutex *mutex = mem_zero(sizeof(*mutex));

	pthread_mutex_init(&mutex->lock, NULL);
	atomic_store(&mutex->users, 1);
	return mutex;
}

void workers_mutex_unref(struct workers_mutex **mutexp)
{
	struct workers_mutex *mutex = *mutexp;

	*mutexp = NULL;
	if (!mutex || atomic_fetch_sub(&mutex->users, 1) > 1)
		return;
	pthread_mutex_destroy(&mutex->lock);
	mem_free(mutex);
}

static struct workers_mutex *mutex_ref(struct workers_mutex *mutex)
{
	if (!mutex)
		return workers_mutex_new();
	atomic_fetch_add(&mutex->users, 1);
	return mutex;
}

struct workers *workers_new(
    unsigned threads, unsigned queue_max, struct workers_mutex *mutex, struct err *err)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct workers *e;
	pthread_condattr_t attributes;

	assert(threads > 0);
	if (fd < 0) {
		err_set(err, "could not create eventfd: %s", strerror(errno));
		return NULL;
	}
	e = mem_zero(sizeof(*e));
	e->fd = fd;
	list_init(&e->finished);
	pthread_mutex_init(&e->lock, NULL);
	e->mutex = mutex_ref(mutex);
	/* the condition uses the monotonic clock, which does not jump when the time is
	 * set */
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&e->is_deserted, &attributes);
	pthread_condattr_destroy(&attributes);
	crew_init(&e->crews[WORKERS_ASK], e, threads, queue_max);
	crew_init(&e->crews[WORKERS_ACCOUNT], e, WORKERS_ACCOUNT_THREADS,
	    WORKERS_ACCOUNT_QUEUE);
	crew_init(&e->crews[WORKERS_COMPUTE], e, 1, WORKERS_COMPUTE_QUEUE);
	crew_init(&e->crews[WORKERS_READ], e, 1, WORKERS_READ_QUEUE);
	e->crews[WORKERS_COMPUTE].lanes = mem_zero(LANES * sizeof(uint64_t));
	return e;
}

int workers_fd(const struct workers *e)
{
	return e->fd;
}

/* ---- the order of waiting jobs ---- */

static void crew_remove(struct crew *crew, struct workers_job *job)
{
	heap_remove(&crew->waiting, &job->wait_node);
	crew->waiting_count--;
}

/* NULL: none waits. */
static struct workers_job *crew_take(struct crew *crew)
{
	struct heap_node *first = heap_first(&crew->waiting);
	struct workers_job *job;

	if (!first)
		return NULL;
	if (crew->lanes)
		crew->turn = first->key >> NUMBER_BITS;
	job = container_of(first, struct workers_job, wait_node);
	crew_remove(crew, job);
	return job;
}

/* ---- when all threads have left ---- */

static struct workers_job *take_finished(struct workers *e)
{
	struct workers_job *job;

	pthread_mutex_lock(&e->lock);
	struct node *node = list_first(&e->finished);
	job = node ? container_of(node, struct workers_job, node) : NULL;
	if (job)
		list_remove(&e->finished, &job->node);
	pthread_mutex_unlock(&e->lock);
	return job;
}

static void dispose(struct workers *e)
{
	struct workers_job *job;

	for (int kind = 0; kind < WORKERS_KINDS; kind++) {
		struct crew *crew = &e->crews[kind];

		while ((job = crew_take(crew)))
			job->discard(job);
		mem_free(crew->lanes);
		pthread_cond_destroy(&crew->has_work);
		mem_free(crew->threads);
	}
	while ((job = take_finished(e)))
		job->discard(job);
	pthread_mutex_destroy(&e->lock);
	workers_mutex_unref(&e->mutex);
	pthread_cond_destroy(&e->is_deserted);
	close(e->fd);
	mem_free(e);
}

/* ---- on the helper threads ---- */

/* Waits under the lock for a job; NULL when the threads are to end. */
static struct workers_job *crew_wait(struct crew *crew)
{
	struct workers *e = crew->workers;
	struct workers_job *job;

	while (heap_is_empty(&crew->waiting) && !e->is_ending)
		pthread_cond_wait(&crew->has_work, &e->lock);
	job = e->is_ending ? NULL : crew_take(crew);
	if (job) {
		list_push_back(&crew->running, &job->node);
		job->state = WORKERS_RUNNING;
	}
	return job;
}

/* What sched_setattr(2) takes.  The kernel's own header cannot be included together
 * with that of libc. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

/* The last step of a thread, under the lock. */
static void leave(struct workers *e)
{
	int is_mine;

	e->threads_left--;
	is_mine = !e->threads_left && e->is_abandoned;
	if (!e->threads_left)
		pthread_cond_signal(&e->is_deserted);
	pthread_mutex_unlock(&e->lock);
	if (is_mine)
		dispose(e);
}

static void *crew_work(void *argument)
{
	static const uint64_t one = 1;
	struct crew *crew = argument;
	struct workers *e = crew->workers;
	struct workers_job *job;

	if (crew == &e->crews[WORKERS_COMPUTE] || crew == &e->crews[WORKERS_READ]) {
		/* Gives this thread a lower priority than the loop, and lets the kernel
		 * take the processor away from it at once when a loop wakes up, for
		 * machines with few processors.  The slice is known to Linux 6.12;
		 * older ones take the rest. */
		int inherited = getpriority(PRIO_PROCESS, 0);
		const struct scheduling low = {
		    .size = sizeof(low),
		    .policy = SCHED_BATCH,
		    .nice = inherited > HELPER_NICE ? inherited : HELPER_NICE,
		    .runtime_ns = HELPER_SLICE_NS,
		};

		/* the 0 stands for this thread; if it is refused, only latency suffers
		 */
		(void)syscall(SYS_sched_setattr, 0, &low, 0);
	}
	pthread_mutex_lock(&e->lock);
	while ((job = crew_wait(crew))) {
		pthread_mutex_unlock(&e->lock);
		job->run(job);
		pthread_mutex_lock(&e->lock);
		list_remove(&crew->running, &job->node);
		list_push_back(&e->finished, &job->node);
		job->state = WORKERS_FINISHED;
		/* it only fails when the counter of the eventfd is at its maximum, and
		 * then the descriptor is readable anyway */
		if (write(e->fd, &one, sizeof(one)) < 0)
			assert(errno == EAGAIN);
	}
	leave(e);
	return NULL;
}

bool workers_is_cancelled(const struct workers_job *job)
{
	return atomic_load(&job->is_cancelled);
}

void workers_alone(const struct workers_job *job, void (*f)(void))
{
	pthread_mutex_lock(&job->workers->mutex->lock);
	f();
	pthread_mutex_unlock(&job->workers->mutex->lock);
}

/* ---- on the loop's thread ---- */

static int crew_accept(struct crew *crew, enum workers_kind kind, struct err *err)
{
	int error = 0;

	/* a job for which a thread is free does not count: it waits only until that
	 * thread wakes up */
	size_t free_count = crew->threads_max - crew->running.count;
	sigset_t all, before;
	if (crew->waiting_count >= crew->queue_max + free_count)
		return err_set_row(err, kind == WORKERS_COMPUTE
					    ? ERROR_DERIVATION_QUEUE_FULL
					    : ERROR_AUTHENTICATION_QUEUE_FULL);
	if (crew->threads_count <= crew->running.count + crew->waiting_count &&
	    crew->threads_count < crew->threads_max) {
		/* Starts one more thread.  All signals are blocked in it, because the
		 * loop handles them. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		error = pthread_create(
		    &crew->threads[crew->threads_count], NULL, crew_work, crew);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (error == 0) {
			crew->threads_count++;
			crew->workers->threads_left++;
		}
	}
	/* existing threads will take the job */
	if (crew->threads_count == 0)
		return err_set_row(err, ERROR_NO_THREAD, strerror(error));
	return 0;
}

int workers_submit(struct workers *e, struct workers_job *job, struct err *err)
{
	struct crew *crew = &e->crews[job->kind];
	int result;

	pthread_mutex_lock(&e->lock);
	result = crew_accept(crew, job->kind, err);
	if (result == 0) {
		job->workers = e;
		job->state = WORKERS_QUEUED;
		atomic_store(&job->is_cancelled, false);
		uint64_t key = ++crew->number;
		if (crew->lanes) {
			/* when the job's turn comes: at once if its lane has used none
			 * of its share lately, else after the jobs of that lane, each
			 * of which moves it back by its cost (start-time fair queueing:
			 * Goyal, Vin, Cheng, 1996) */
			uint64_t *lane = &crew->lanes[job->lane % LANES];
			uint64_t turn = *lane > crew->turn ? *lane : crew->turn;
			assert(job->cost > 0);
			*lane = turn + job->cost;
			key = turn << NUMBER_BITS | (key & ((1U << NUMBER_BITS) - 1));
		}
		heap_put(&crew->waiting, &job->wait_node, key);
		crew->waiting_count++;
		pthread_cond_signal(&crew->has_work);
	}
	pthread_mutex_unlock(&e->lock);
	return result;
}

void workers_cancel(struct workers_job *job)
{
	struct workers *e = job->workers;
	bool is_over;

	pthread_mutex_lock(&e->lock);
	assert(heap_has(&job->wait_node) || node_is_linked(&job->node));
	is_over = job->state != WORKERS_RUNNING;
	if (job->state == WORKERS_QUEUED) {
		/* a job that is not done has used nothing of its lane's share */
		struct crew *crew = &e->crews[job->kind];
		if (crew->lanes)
			crew->lanes[job->lane % LANES] -= job->cost;
		crew_remove(crew, job);
	} else if (job->state == WORKERS_FINISHED)
		list_remove(&e->finished, &job->node);
	else
		atomic_store(&job->is_cancelled, true);
	pthread_mutex_unlock(&e->lock);
	if (is_over)
		job->discard(job);
}

void workers_collect(struct workers *e)
{
	struct workers_job *job;
	uint64_t count;

	/* the eventfd is read before the list, so that a job that finishes in between
	 * makes it readable again */
	if (read(e->fd, &count, sizeof(count)) < 0)
		assert(errno == EAGAIN);
	/* one at a time, because done() may cancel other jobs */
	while ((job = take_finished(e))) {
		if (!workers_is_cancelled(job))
			job->done(job);
		job->discard(job);
	}
}

unsigned workers_waiting(struct workers *e, enum workers_kind kind)
{
	unsigned count;

	pthread_mutex_lock(&e->lock);
	count = (unsigned)e->crews[kind].waiting_count;
	pthread_mutex_unlock(&e->lock);
	return count;
}

/* ---- the end ---- */

static void cancel_running(struct crew *crew)
{
	struct workers_job *job;

	list_for (job, &crew->running, node)
		atomic_store(&job->is_cancelled, true);
	pthread_cond_broadcast(&crew->has_work);
}

void workers_free(struct workers **e)
{
	struct workers *gone = *e;
	bool is_deserted;
	struct timespec end;

	if (!gone)
		return;
	*e = NULL;
	pthread_mutex_lock(&gone->lock);
	gone->is_ending = 1;
	for (int kind = 0; kind < WORKERS_KINDS; kind++)
		cancel_running(&gone->crews[kind]);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += LAST_WAIT_SECONDS;
	while (gone->threads_left > 0)
		if (pthread_cond_timedwait(&gone->is_deserted, &gone->lock, &end) ==
		    ETIMEDOUT)
			break;
	is_deserted = gone->threads_left == 0;
	gone->is_abandoned = !is_deserted;
	for (int kind = 0; kind < WORKERS_KINDS && !is_deserted; kind++) {
		/* Detaches the threads, because nobody will join them.  Under the lock.
		 */
		const struct crew *crew = &gone->crews[kind];
		for (unsigned i = 0; i < crew->threads_count; i++)
			pthread_detach(crew->threads[i]);
	}
	pthread_mutex_unlock(&gone->lock);
	if (!is_deserted)
		return;
	for (int kind = 0; kind < WORKERS_KINDS; kind++)
		for (unsigned i = 0; i < gone->crews[kind].threads_count; i++)
			pthread_join(gone->crews[kind].threads[i], NULL);
	dispose(gone);
}
