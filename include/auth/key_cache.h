/*
 * Salted passwords that were derived recently, so that the next login with the same
 * password, salt and iteration count costs nothing.  The size is bounded; the entry
 * that was not used for the longest time is dropped first.  Passwords are not kept:
 * entries are found by a keyed hash of them.  Only derivations of correct passwords may
 * be put in, because otherwise one client that guesses could drive out the entries of
 * all others.
 */
#ifndef AUTH_KEY_CACHE_H
#define AUTH_KEY_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/helpers.h"
#include "auth/scram_keys.h"

enum { KEY_CACHE_ENTRIES = 1024 };

struct key_cache;

struct key_cache *key_cache_new(size_t entries_max);
void key_cache_free(struct key_cache **d); /* wipes and frees everything */

/* Returns 0 and the salted password, or -1 when it is not in the cache. */
int key_cache_find(
    struct key_cache *d, const struct scram_due *due, uint8_t salted[SCRAM_KEY_LEN]);
void key_cache_put(struct key_cache *d, const struct scram_due *due,
    const uint8_t salted[SCRAM_KEY_LEN]);
/* Forgets and wipes everything, as a reload demands. */
void key_cache_clear(struct key_cache *d);
size_t key_cache_count(const struct key_cache *d);

/* ---- a derivation as a job ---- */

struct key_job {
	struct helpers_job job;
	struct scram_due due;          /* copies; wiped and freed with the job */
	uint8_t salted[SCRAM_KEY_LEN]; /* the result, valid in done() */
	bool has_failed;               /* there was no memory, and there is no result */
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
