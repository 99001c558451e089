/*
 * The slow part of SCRAM as a job for a helper thread: password, salt and iterations
 * in, salted password out.
 */
#ifndef AUTH_KEY_JOB_H
#define AUTH_KEY_JOB_H

#include "auth/scram_keys.h"
#include "auth/workers.h"

struct key_job {
	struct workers_job job;
	struct scram_due due;          /* copies, wiped and freed with the job */
	uint8_t salted[SCRAM_KEY_LEN]; /* the result, in done() */
	/* borrowed */
	void (*done)(struct key_job *key_job);
	void *owner;
};

/* Copies what is due.  NULL when there is no memory.  Submit `&key_job->job`;
 * whoever could not, ends it with key_job_discard. */
struct key_job *key_job_new(
    const struct scram_due *due, void (*done)(struct key_job *key_job), void *owner);
void key_job_discard(struct key_job *key_job);

#endif
