/*
 * A step of a Kerberos exchange, as a job.
 */
#ifndef AUTH_KERBEROS_JOB_H
#define AUTH_KERBEROS_JOB_H

#include "auth/helpers.h"
#include "auth/kerberos.h"

struct kerberos_job {
	struct helpers_job job;
	/* owned; done() may take it back and leaves NULL here */
	struct kerberos_exchange *exchange;
	uint8_t *token; /* owned: of the other side */
	size_t token_len;
	/* the result */
	enum kerberos_result result;
	struct buf out;
	struct err err;
	/* borrowed */
	void (*done)(struct kerberos_job *job);
	void *owner;
};

/* Takes *exchange over, and copies the token.  NULL: no memory, and nothing is taken.
 * The caller submits `&job->job`, or ends it with kerberos_job_discard if that fails.
 */
struct kerberos_job *kerberos_job_new(enum helpers_kind kind,
    struct kerberos_exchange **exchange, const uint8_t *token, size_t token_len,
    void (*done)(struct kerberos_job *job), void *owner);
void kerberos_job_discard(struct kerberos_job *own);

#endif
