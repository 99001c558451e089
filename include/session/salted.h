/*
 * Salted passwords for SCRAM (auth/key_cache.h), for logins of clients and for logins
 * to servers.  They are derived on a helper thread, and kept in a cache once a login
 * with them has succeeded.
 */
#ifndef SESSION_SALTED_H
#define SESSION_SALTED_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/key_cache.h"
#include "session/site.h"

/* Empties the cache, because passwords may have changed. */
void salted_forget_all(struct site *site);

typedef void salted_fn(struct key_job *key_job);

/* In which lane of the helper thread a derivation waits (auth/helpers.h): each user who
 * logs in has one, whether there is such a user or not, and so has each database whose
 * servers are logged in to.  Strangers cannot tell which names share a lane. */
uint32_t salted_lane_of_user(const struct site *site, const char *name);
uint32_t salted_lane_of_database(const struct site *site, const char *name);

/* Derives a salted password: done is called later, unless the job is cancelled
 * (helpers_cancel).  NULL and err: the queue is full or there is no memory; the text is
 * suitable for the peer. */
struct helpers_job *salted_submit(struct site *site, const struct scram_due *due,
    uint32_t lane, salted_fn *done, void *owner, struct err *err);
/* Looks into the cache first.  1: it was there; salted is filled.  0: *job was
 * submitted as by salted_submit.  -1 and err: that failed. */
int salted_derive(struct site *site, const struct scram_due *due, uint32_t lane,
    salted_fn *done, void *owner, uint8_t salted[SCRAM_KEY_LEN],
    struct helpers_job **job, struct err *err);
/* Keeps a salted password with which a login has succeeded, so that the next login with
 * the same password, salt and rounds needs no derivation. */
void salted_keep(struct site *site, const struct scram_due *due,
    const uint8_t salted[SCRAM_KEY_LEN]);
/* Is the queue so long that derivations which are not needed should be left out? */
bool salted_is_busy(const struct site *site);

#endif
