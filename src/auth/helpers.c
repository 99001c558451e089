#include "auth/helpers.h"

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
/* How long helpers_free waits for running jobs.  PAM modules may take minutes and
 * cannot be stopped. */
enum { LAST_WAIT_SECONDS = 1 };
/* Lanes are told apart by their number modulo LANES.  The key of a job in the heap is
 * the time at which its turn comes, and below that its number, so that jobs of the same
 * time keep their order. */
enum { LANES = 1024, NUMBER_BITS = 20 };

/* The threads of one kind and the jobs that wait for them. */
struct work_queue {
	struct heap waiting; /* struct helpers_job by .wait_node */
	size_t waiting_count;
	struct list running; /* struct helpers_job by .node */
	uint64_t number;     /* of the job that was submitted last */
	/* The clock of the lanes: the turn of the job that was begun last.  It counts
	 * costs.  lanes: when each lane has used up its share. */
	uint64_t turn;
	uint64_t *lanes; /* NULL: jobs are done in their order */
	unsigned queue_max;
	unsigned threads_max, threads_count;
	pthread_t *threads;
	pthread_cond_t has_work;
	struct helpers *helpers;
};

struct helpers_mutex {
	pthread_mutex_t lock;
	atomic_uint users;
};

struct helpers {
	pthread_mutex_t lock; /* protects everything below up to is_abandoned */
	struct work_queue queues[HELPERS_KINDS];
	struct list finished;
	int is_ending;
	unsigned threads_left;      /* number of threads of all kinds */
	pthread_cond_t is_deserted; /* signalled when the last thread ends */
	/* helpers_free no longer waits: the last thread frees this struct */
	int is_abandoned;
	/* written only at the start */
	/* one reference; must not be locked while lock is held */
	struct helpers_mutex *mutex;
	int fd;
};

static void queue_init(
    struct work_queue *queue, struct helpers *e, unsigned threads, unsigned queue_max)
{
	list_init(&queue->running);
	queue->queue_max = queue_max;
	queue->threads_max = threads;
	queue->threads = mem_zero(threads * sizeof(*queue->threads));
	pthread_cond_init(&queue->has_work, NULL);
	queue->helpers = e;
}

struct helpers_mutex *helpers_mutex_new(void)
{
	struct helpers_mutex *mutex = mem_zero(sizeof(*mutex));

	pthread_mutex_init(&mutex->lock, NULL);
	atomic_store(&mutex->users, 1);
	return mutex;
}

void helpers_mutex_unref(struct helpers_mutex **mutexp)
{
	struct helpers_mutex *mutex = *mutexp;

	*mutexp = NULL;
	if (!mutex || atomic_fetch_sub(&mutex->users, 1) > 1)
		return;
	pthread_mutex_destroy(&mutex->lock);
	mem_free(mutex);
}

struct helpers *helpers_new(
    unsigned threads, unsigned queue_max, struct helpers_mutex *mutex, struct err *err)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct helpers *e;
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
	if (mutex)
		atomic_fetch_add(&mutex->users, 1);
	e->mutex = mutex ? mutex : helpers_mutex_new();
	/* the condition uses the monotonic clock, which does not jump when the time is
	 * set */
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&e->is_deserted, &attributes);
	pthread_condattr_destroy(&attributes);
	queue_init(&e->queues[HELPERS_ASK], e, threads, queue_max);
	queue_init(&e->queues[HELPERS_ACCOUNT], e, HELPERS_ACCOUNT_THREADS,
	    HELPERS_ACCOUNT_QUEUE);
	queue_init(&e->queues[HELPERS_COMPUTE], e, 1, HELPERS_COMPUTE_QUEUE);
	queue_init(&e->queues[HELPERS_READ], e, 1, HELPERS_READ_QUEUE);
	queue_init(
	    &e->queues[HELPERS_FETCH], e, HELPERS_FETCH_THREADS, HELPERS_FETCH_QUEUE);
	queue_init(&e->queues[HELPERS_ACCEPT], e, HELPERS_ACCEPT_THREADS,
	    HELPERS_ACCEPT_QUEUE);
	queue_init(&e->queues[HELPERS_TICKET], e, HELPERS_TICKET_THREADS,
	    HELPERS_TICKET_QUEUE);
	e->queues[HELPERS_COMPUTE].lanes = mem_zero(LANES * sizeof(uint64_t));
	return e;
}

int helpers_fd(const struct helpers *e)
{
	return e->fd;
}

/* ---- the order of waiting jobs ---- */

static void queue_remove(struct work_queue *queue, struct helpers_job *job)
{
	heap_remove(&queue->waiting, &job->wait_node);
	queue->waiting_count--;
}

/* NULL: none waits. */
static struct helpers_job *queue_take(struct work_queue *queue)
{
	struct heap_node *first = heap_first(&queue->waiting);
	struct helpers_job *job;

	if (!first)
		return NULL;
	if (queue->lanes)
		queue->turn = first->key >> NUMBER_BITS;
	job = container_of(first, struct helpers_job, wait_node);
	queue_remove(queue, job);
	return job;
}

/* ---- when all threads have left ---- */

static struct helpers_job *take_finished(struct helpers *e)
{
	struct helpers_job *job;

	pthread_mutex_lock(&e->lock);
	struct node *node = list_first(&e->finished);
	job = node ? container_of(node, struct helpers_job, node) : NULL;
	if (job)
		list_remove(&e->finished, &job->node);
	pthread_mutex_unlock(&e->lock);
	return job;
}

static void dispose(struct helpers *e)
{
	struct helpers_job *job;

	for (int kind = 0; kind < HELPERS_KINDS; kind++) {
		struct work_queue *queue = &e->queues[kind];

		while ((job = queue_take(queue)))
			job->discard(job);
		mem_free(queue->lanes);
		pthread_cond_destroy(&queue->has_work);
		mem_free(queue->threads);
	}
	while ((job = take_finished(e)))
		job->discard(job);
	pthread_mutex_destroy(&e->lock);
	helpers_mutex_unref(&e->mutex);
	pthread_cond_destroy(&e->is_deserted);
	close(e->fd);
	mem_free(e);
}

/* ---- on the helper threads ---- */

/* Waits under the lock for a job; NULL when the threads are to end. */
static struct helpers_job *queue_wait(struct work_queue *queue)
{
	struct helpers *e = queue->helpers;
	struct helpers_job *job;

	while (heap_is_empty(&queue->waiting) && !e->is_ending)
		pthread_cond_wait(&queue->has_work, &e->lock);
	job = e->is_ending ? NULL : queue_take(queue);
	if (job) {
		list_push_back(&queue->running, &job->node);
		job->state = HELPERS_RUNNING;
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
static void leave(struct helpers *e)
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

static void *queue_work(void *argument)
{
	static const uint64_t one = 1;
	struct work_queue *queue = argument;
	struct helpers *e = queue->helpers;
	struct helpers_job *job;

	if (queue == &e->queues[HELPERS_COMPUTE] || queue == &e->queues[HELPERS_READ]) {
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
	while ((job = queue_wait(queue))) {
		pthread_mutex_unlock(&e->lock);
		job->run(job);
		pthread_mutex_lock(&e->lock);
		list_remove(&queue->running, &job->node);
		list_push_back(&e->finished, &job->node);
		job->state = HELPERS_FINISHED;
		/* it only fails when the counter of the eventfd is at its maximum, and
		 * then the descriptor is readable anyway */
		if (write(e->fd, &one, sizeof(one)) < 0)
			assert(errno == EAGAIN);
	}
	leave(e);
	return NULL;
}

bool helpers_is_cancelled(const struct helpers_job *job)
{
	return atomic_load(&job->is_cancelled);
}

void helpers_alone(const struct helpers_job *job, void (*f)(void))
{
	pthread_mutex_lock(&job->helpers->mutex->lock);
	f();
	pthread_mutex_unlock(&job->helpers->mutex->lock);
}

/* ---- on the loop's thread ---- */

static int queue_accept(
    struct work_queue *queue, enum helpers_kind kind, struct err *err)
{
	int error = 0;

	/* a job for which a thread is free does not count: it waits only until that
	 * thread wakes up */
	size_t free_count = queue->threads_max - queue->running.count;
	sigset_t all, before;
	if (queue->waiting_count >= queue->queue_max + free_count)
		return err_set_row(err, kind == HELPERS_COMPUTE
					    ? ERROR_DERIVATION_QUEUE_FULL
					    : ERROR_AUTHENTICATION_QUEUE_FULL);
	if (queue->threads_count <= queue->running.count + queue->waiting_count &&
	    queue->threads_count < queue->threads_max) {
		/* Starts one more thread.  All signals are blocked in it, because the
		 * loop handles them. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		error = pthread_create(
		    &queue->threads[queue->threads_count], NULL, queue_work, queue);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (error == 0) {
			queue->threads_count++;
			queue->helpers->threads_left++;
		}
	}
	/* existing threads will take the job */
	if (queue->threads_count == 0)
		return err_set_row(err, ERROR_NO_THREAD, strerror(error));
	return 0;
}

int helpers_submit(struct helpers *e, struct helpers_job *job, struct err *err)
{
	struct work_queue *queue = &e->queues[job->kind];
	int result;

	pthread_mutex_lock(&e->lock);
	result = queue_accept(queue, job->kind, err);
	if (result == 0) {
		job->helpers = e;
		job->state = HELPERS_QUEUED;
		atomic_store(&job->is_cancelled, false);
		uint64_t key = ++queue->number;
		if (queue->lanes) {
			/* when the job's turn comes: at once if its lane has used none
			 * of its share lately, else after the jobs of that lane, each
			 * of which moves it back by its cost (start-time fair queueing:
			 * Goyal, Vin, Cheng, 1996) */
			uint64_t *lane = &queue->lanes[job->lane % LANES];
			uint64_t turn = *lane > queue->turn ? *lane : queue->turn;
			assert(job->cost > 0);
			*lane = turn + job->cost;
			key = turn << NUMBER_BITS | (key & ((1U << NUMBER_BITS) - 1));
		}
		heap_put(&queue->waiting, &job->wait_node, key);
		queue->waiting_count++;
		pthread_cond_signal(&queue->has_work);
	}
	pthread_mutex_unlock(&e->lock);
	return result;
}

void helpers_cancel(struct helpers_job *job)
{
	struct helpers *e = job->helpers;
	bool is_over;

	pthread_mutex_lock(&e->lock);
	assert(heap_has(&job->wait_node) || node_is_linked(&job->node));
	is_over = job->state != HELPERS_RUNNING;
	if (job->state == HELPERS_QUEUED) {
		/* a job that is not done has used nothing of its lane's share */
		struct work_queue *queue = &e->queues[job->kind];
		if (queue->lanes)
			queue->lanes[job->lane % LANES] -= job->cost;
		queue_remove(queue, job);
	} else if (job->state == HELPERS_FINISHED)
		list_remove(&e->finished, &job->node);
	else
		atomic_store(&job->is_cancelled, true);
	pthread_mutex_unlock(&e->lock);
	if (is_over)
		job->discard(job);
}

void helpers_collect(struct helpers *e)
{
	struct helpers_job *job;
	uint64_t count;

	/* the eventfd is read before the list, so that a job that finishes in between
	 * makes it readable again */
	if (read(e->fd, &count, sizeof(count)) < 0)
		assert(errno == EAGAIN);
	/* one at a time, because done() may cancel other jobs */
	while ((job = take_finished(e))) {
		if (!helpers_is_cancelled(job))
			job->done(job);
		job->discard(job);
	}
}

unsigned helpers_waiting(struct helpers *e, enum helpers_kind kind)
{
	unsigned count;

	pthread_mutex_lock(&e->lock);
	count = (unsigned)e->queues[kind].waiting_count;
	pthread_mutex_unlock(&e->lock);
	return count;
}

/* ---- the end ---- */

void helpers_free(struct helpers **e)
{
	struct helpers *gone = *e;
	bool is_deserted;
	struct timespec end;

	if (!gone)
		return;
	*e = NULL;
	pthread_mutex_lock(&gone->lock);
	gone->is_ending = 1;
	for (int kind = 0; kind < HELPERS_KINDS; kind++) {
		struct helpers_job *job;

		list_for (job, &gone->queues[kind].running, node)
			atomic_store(&job->is_cancelled, true);
		pthread_cond_broadcast(&gone->queues[kind].has_work);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += LAST_WAIT_SECONDS;
	while (gone->threads_left > 0)
		if (pthread_cond_timedwait(&gone->is_deserted, &gone->lock, &end) ==
		    ETIMEDOUT)
			break;
	is_deserted = gone->threads_left == 0;
	gone->is_abandoned = !is_deserted;
	for (int kind = 0; kind < HELPERS_KINDS && !is_deserted; kind++) {
		/* Detaches the threads, because nobody will join them.  Under the lock.
		 */
		const struct work_queue *queue = &gone->queues[kind];
		for (unsigned i = 0; i < queue->threads_count; i++)
			pthread_detach(queue->threads[i]);
	}
	pthread_mutex_unlock(&gone->lock);
	if (!is_deserted)
		return;
	for (int kind = 0; kind < HELPERS_KINDS; kind++)
		for (unsigned i = 0; i < gone->queues[kind].threads_count; i++)
			pthread_join(gone->queues[kind].threads[i], NULL);
	dispose(gone);
}
