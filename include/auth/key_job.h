/*
 * The slow part of SCRAM as a job for a helper thread: it derives the salted password
 * from password, salt and iteration count.
 */
#ifndef AUTH_KEY_JOB_H
#define AUTH_KEY_JOB_H

#include "auth/helpers.h"
#include "auth/scram_keys.h"

struct key_job {
	struct helpers_job job;
	struct scram_due due;          /* copies; wiped and freed with the job */
	uint8_t salted[SCRAM_KEY_LEN]; /* the result, valid in done() */
	/* borrowed */
	void (*done)(struct key_job *key_job);
	void *owner;
};

/* Makes a job with copies of `due`, which waits in this lane (auth/helpers.h).  NULL:
 * no memory.  The caller submits
 * `&key_job->job`, or ends it with key_job_discard if that fails. */
struct key_job *key_job_new(const struct scram_due *due, uint32_t lane,
    void (*done)(struct key_job *key_job), void *owner);
void key_job_discard(struct key_job *key_job);

#endif
