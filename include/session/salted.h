/*
 * Salted passwords for SCRAM (auth/key_job.h), for logins of clients and for logins
 * on servers: derived on a helper thread, and kept once they have proven right.
 */
#ifndef SESSION_SALTED_H
#define SESSION_SALTED_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/key_job.h"
#include "session/site.h"

/* Makes site->key_cache, in which nothing is kept yet. */
void salted_init(struct site *site);
/* Wipes and frees all that is kept.  Call it after the helper threads have ended. */
void salted_done(struct site *site);
/* Passwords may have changed: nothing that was derived is kept. */
void salted_forget_all(struct site *site);

typedef void salted_fn(struct key_job *key_job);

/* Have it derived: done is called later, unless the job is cancelled
 * (workers_cancel).  NULL and err, which is worded for the peer: the queue is full or
 * there is no memory. */
struct workers_job *salted_submit(struct site *site, const struct scram_due *due,
    salted_fn *done, void *owner, struct err *err);
/* 1: it was derived lately, and salted is filled.  0: *job was submitted as above.
 * -1 and err, which is worded for the peer: it cannot be done now. */
int salted_derive(struct site *site, const struct scram_due *due, salted_fn *done,
    void *owner, uint8_t salted[SCRAM_KEY_LEN], struct workers_job **job,
    struct err *err);
/* This one has proven right: the next login with the same password, salt and rounds
 * costs nothing. */
void salted_keep(struct site *site, const struct scram_due *due,
    const uint8_t salted[SCRAM_KEY_LEN]);
/* Is the queue so long that nothing should be derived without need? */
bool salted_is_busy(const struct site *site);

#endif
