/*
 * Helper threads for what takes long: questions to a directory or to PAM, look-ups of
 * operating system accounts, the derivation of keys, and large files.  Each kind has
 * its own queue and its own threads, so that none of them waits for another: a slow
 * directory delays neither a `peer` login nor a key, and a storm of logins does not
 * delay the directory.
 *
 * All functions but run() and workers_is_cancelled() are called on the loop's thread.
 * Threads are started when there is work for them, and block all signals.
 */
#ifndef AUTH_WORKERS_H
#define AUTH_WORKERS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"

enum workers_kind {
	WORKERS_ASK,     /* waits for somebody else: LDAP, PAM */
	WORKERS_ACCOUNT, /* looks up an account of the operating system */
	WORKERS_COMPUTE, /* computes: one thread */
	WORKERS_READ,    /* reads a large file, or frees what it said: one thread */
	WORKERS_KINDS,
};

/* The defaults: four questions to slow services at a time, and twenty logins that wait
 * for their turn. */
enum { WORKERS_ASK_THREADS = 4, WORKERS_ASK_QUEUE = 20 };
/* Accounts are usually in a local file; a name service behind it may be slow. */
enum { WORKERS_ACCOUNT_THREADS = 2, WORKERS_ACCOUNT_QUEUE = 1024 };
/* How many derivations may wait.  The last of so many would come after
 * client_login_timeout. */
enum { WORKERS_COMPUTE_QUEUE = 16384 };
/* Reloads come one after the other. */
enum { WORKERS_READ_QUEUE = 4 };

enum workers_state {
	WORKERS_QUEUED,
	WORKERS_RUNNING,
	WORKERS_FINISHED,
};

/*
 * One piece of work, embedded in a struct that has copies of all it needs.  It is the
 * submitter's until workers_submit has taken it.  From then on the workers own it: they
 * call run() once or, when it is cancelled in time, never; then, unless it was
 * cancelled, done(); and in any case discard() once, last.
 */
struct workers_job {
	enum workers_kind kind;
	/* On a helper thread; touches nothing but the job. */
	void (*run)(struct workers_job *job);
	/* On the loop's thread: the result is there.  May submit and cancel other jobs.
	 */
	void (*done)(struct workers_job *job);
	/* On the loop's thread: wipe and free. */
	void (*discard)(struct workers_job *job);
	/* for the workers only */
	struct workers *workers;
	struct node node;
	enum workers_state state;
	atomic_bool is_cancelled;
};

struct workers;

/* Through which one thread goes at a time: see workers_alone. */
struct workers_door;

struct workers_door *workers_door_new(void);
/* It lives as long as somebody uses it. */
void workers_door_unref(struct workers_door **door);

/* threads: how many questions are asked at a time; queue_max: how many more wait; door:
 * one that others use as well, or NULL.  NULL when the system has no descriptor left.
 */
struct workers *workers_new(
    unsigned threads, unsigned queue_max, struct workers_door *door, struct err *err);
/* Cancels everything, waits a second for the threads, and discards all jobs.  A job
 * that still runs then is discarded when it ends, if the process lives so long. */
void workers_free(struct workers **e);

/* Readable when a job is finished; workers_collect is due then. */
int workers_fd(const struct workers *e);
/* Calls done() and discard() of what is finished. */
void workers_collect(struct workers *e);

/* Never waits.  -1 when the queue is full or no thread can be started (err is for the
 * client); the job stays the caller's then, who discards it. */
int workers_submit(struct workers *e, struct workers_job *job, struct err *err);
/* The submitter has gone: done() is not called any more, and the job must not be
 * touched again.  Not for a job whose done() has begun. */
void workers_cancel(struct workers_job *job);
/* For run(), which may look now and then whether anybody still waits for it. */
bool workers_is_cancelled(const struct workers_job *job);
/* For run(): calls f() while no other helper thread with the same door is in such a
 * call.  For libraries whose first use is not safe among threads. */
void workers_alone(const struct workers_job *job, void (*f)(void));

/* Jobs that wait for a thread. */
unsigned workers_waiting(struct workers *e, enum workers_kind kind);

#endif
