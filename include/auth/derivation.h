/*
 * The slow part of SCRAM as a job for a helper thread: password, salt and iterations
 * in, salted password out.
 */
#ifndef AUTH_DERIVATION_H
#define AUTH_DERIVATION_H

#include "auth/external.h"
#include "auth/scram_keys.h"

struct derivation {
	struct external_job job;
	struct scram_due due;          /* copies, which die with the job */
	uint8_t salted[SCRAM_KEY_LEN]; /* the result, in done() */
	/* borrowed */
	void (*done)(struct derivation *derivation);
	void *owner;
};

/* Copies what is due.  NULL when there is no memory.  Submit `&derivation->job`;
 * whoever could not, ends it with derivation_discard. */
struct derivation *derivation_new(const struct scram_due *due,
    void (*done)(struct derivation *derivation), void *owner);
void derivation_discard(struct derivation *derivation);

#endif
