/*
 * Helper threads for slow work: asking an LDAP directory or PAM, looking up accounts of
 * the operating system, deriving keys, reading large files, running programs.  Each
 * kind of work has its own queue and threads, so that none delays another: a slow
 * directory delays neither a `peer` login nor a key, and many logins do not delay the
 * directory.
 *
 * Derivations wait in lanes, of which each gets the same share of the thread's time:
 * many for one user delay those for others by one.
 *
 * All functions except run() and helpers_is_cancelled() are called on the loop's
 * thread.  Threads are started when there is work for them, and block all signals.
 */
#ifndef AUTH_HELPERS_H
#define AUTH_HELPERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"

enum helpers_kind {
	HELPERS_ASK, /* asks another service: LDAP, PAM, a program that judges tokens */
	HELPERS_ACCOUNT, /* looks up an account of the operating system */
	HELPERS_COMPUTE, /* derives keys, checks signatures: one thread */
	HELPERS_READ,    /* reads a large file or frees its content: one thread */
	HELPERS_FETCH,   /* gets a password for a server, or the keys of an issuer of
			    tokens */
	HELPERS_ACCEPT,  /* reads a Kerberos ticket of a client */
	HELPERS_TICKET,  /* gets a Kerberos ticket for a server */
	HELPERS_KINDS,
};

/* The defaults: four logins ask slow services at a time, and twenty more wait. */
enum { HELPERS_ASK_THREADS = 4, HELPERS_ASK_QUEUE = 20 };
/* Accounts are usually in a local file, but may come from a slow name service. */
enum { HELPERS_ACCOUNT_THREADS = 2, HELPERS_ACCOUNT_QUEUE = 1024 };
/* How many derivations may wait.  With more, the last one would end after
 * client_login_timeout. */
enum { HELPERS_COMPUTE_QUEUE = 16384 };
/* As many programs run at a time; each host and user have one at most. */
enum { HELPERS_FETCH_THREADS = 8, HELPERS_FETCH_QUEUE = 1024 };
/* A ticket of a client is read with keys that the pooler has, which takes less than a
 * millisecond. */
enum { HELPERS_ACCEPT_THREADS = 2, HELPERS_ACCEPT_QUEUE = 1024 };
/* A KDC may be slow, or not answer. */
enum { HELPERS_TICKET_THREADS = 4, HELPERS_TICKET_QUEUE = 1024 };
/* Reloads come one after the other, so few jobs wait. */
enum { HELPERS_READ_QUEUE = 4 };

enum helpers_state {
	HELPERS_QUEUED,
	HELPERS_RUNNING,
	HELPERS_FINISHED,
};

/*
 * One piece of work, embedded in a struct with copies of everything it needs.  It
 * belongs to the submitter until helpers_submit has accepted it, and then to the
 * workers.  They call run() once, or never if the job is cancelled early enough; then
 * done(), unless it was cancelled; and in any case discard() at the end.
 */
struct helpers_job {
	enum helpers_kind kind;
	/* HELPERS_COMPUTE: whose lane it waits in, any number; and how long it takes in
	 * comparison with other jobs, at least 1 */
	uint32_t lane, cost;
	/* Is called on a helper thread; may use nothing but the job. */
	void (*run)(struct helpers_job *job);
	/* Is called on the loop's thread when the result is there.  May submit and
	 * cancel other jobs. */
	void (*done)(struct helpers_job *job);
	/* Is called on the loop's thread; wipes and frees the job. */
	void (*discard)(struct helpers_job *job);
	/* used by the workers only */
	struct helpers *helpers;
	struct heap_node wait_node; /* while it is queued */
	struct node node;           /* afterwards */
	enum helpers_state state;
	atomic_bool is_cancelled;
};

struct helpers;

/* A lock for helpers_alone. */
struct helpers_mutex;

struct helpers_mutex *helpers_mutex_new(void);
/* The lock lives until the last reference is dropped. */
void helpers_mutex_unref(struct helpers_mutex **mutex);

/* threads: how many jobs of the kind HELPERS_ASK run at a time; queue_max: how many
 * more may wait; mutex: a lock shared with others, or NULL.  Returns NULL when there is
 * no descriptor left. */
struct helpers *helpers_new(
    unsigned threads, unsigned queue_max, struct helpers_mutex *mutex, struct err *err);
/* Cancels all jobs, waits up to a second for the threads, and discards the jobs.  A job
 * that is still running then is discarded when it ends. */
void helpers_free(struct helpers **e);

/* This descriptor is readable when jobs are finished; helpers_collect must then be
 * called. */
int helpers_fd(const struct helpers *e);
/* Calls done() and discard() of finished jobs. */
void helpers_collect(struct helpers *e);

/* Hands a job over; never waits.  -1: the queue is full or no thread can be started
 * (err is for the client); the job still belongs to the caller, who discards it. */
int helpers_submit(struct helpers *e, struct helpers_job *job, struct err *err);
/* Cancels a job: done() will not be called, and the caller must not touch the job
 * again.  Not allowed once done() has begun. */
void helpers_cancel(struct helpers_job *job);
/* For run() of a long job: whether nobody wants the result any more. */
bool helpers_is_cancelled(const struct helpers_job *job);
/* For run(): calls f() while no other helper thread that shares the lock is in such a
 * call.  For libraries whose first use is not thread-safe. */
void helpers_alone(const struct helpers_job *job, void (*f)(void));

/* Number of jobs that wait for a thread. */
unsigned helpers_waiting(struct helpers *e, enum helpers_kind kind);

#endif
