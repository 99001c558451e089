/*
 * Helper threads for what takes long: questions to a directory or to PAM, and the
 * derivation of keys.  Each of the two has its own queue and its own threads, so that a
 * slow directory keeps no key waiting, nor a storm of logins the directory.
 *
 * All functions but run() and external_is_cancelled() are called on the loop's thread.
 * Threads are started when there is work for them, and block all signals.
 */
#ifndef AUTH_EXTERNAL_H
#define AUTH_EXTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"

enum external_kind {
	EXTERNAL_ASK,     /* waits for somebody else: LDAP, PAM */
	EXTERNAL_COMPUTE, /* computes: one thread */
	EXTERNAL_KINDS,
};

/* What sites get unless they want otherwise: four slow answers at a time, and twenty
 * logins that wait for their turn. */
enum { EXTERNAL_ASK_THREADS = 4, EXTERNAL_ASK_QUEUE = 20 };
/* Derivations that wait.  Of so many the last would come after client_login_timeout. */
enum { EXTERNAL_COMPUTE_QUEUE = 16384 };

enum external_state {
	EXTERNAL_QUEUED,
	EXTERNAL_RUNNING,
	EXTERNAL_FINISHED,
};

/*
 * One piece of work, embedded in a struct that has copies of all it needs.  It is the
 * submitter's until external_submit has taken it.  From then on external owns it: it
 * calls run() once or, when it is cancelled in time, never; then, unless it was
 * cancelled, done(); and in any case discard() once, last.
 */
struct external_job {
	enum external_kind kind;
	/* On a helper thread; touches nothing but the job. */
	void (*run)(struct external_job *job);
	/* On the loop's thread: the result is there.  May submit and cancel other jobs.
	 */
	void (*done)(struct external_job *job);
	/* On the loop's thread: wipe and free. */
	void (*discard)(struct external_job *job);
	/* external's */
	struct external *external;
	struct node node;
	enum external_state state;
	atomic_bool is_cancelled;
};

struct external;

/* threads: how many questions are asked at a time; queue_max: how many more wait.  NULL
 * when the system has no descriptor left. */
struct external *external_new(unsigned threads, unsigned queue_max, struct err *err);
/* Cancels everything, waits a second for the threads, discards all jobs: those that
 * still run when they have ended, if the process lives so long. */
void external_free(struct external **e);

/* Readable when a job is finished; external_collect is due then. */
int external_fd(const struct external *e);
/* Calls done() and discard() of what is finished. */
void external_collect(struct external *e);

/* Never waits.  -1 when the queue is full or no thread can be started (err is for the
 * client); the job stays the caller's then, who discards it. */
int external_submit(struct external *e, struct external_job *job, struct err *err);
/* The one who asked is gone: done() is not called any more and the job must not be
 * touched again.  Not for a job whose done() has been entered. */
void external_cancel(struct external_job *job);
/* For run(), which may look now and then whether anybody still waits for it. */
bool external_is_cancelled(const struct external_job *job);
/* For run(): calls f() while no other helper thread is in such a call.  For libraries
 * that get themselves ready at their first use, and not safely. */
void external_alone(const struct external_job *job, void (*f)(void));

/* Jobs that wait for a thread. */
unsigned external_waiting(struct external *e, enum external_kind kind);

#endif
