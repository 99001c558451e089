/*
 * The slow part of SCRAM (auth/derivation.h) for sessions: on a helper thread, each
 * result at most once.
 */
#ifndef SESSION_DERIVE_H
#define SESSION_DERIVE_H

#include "auth/derivation.h"
#include "session/client.h"

void derive_init(struct site *site);
/* After the helper threads have ended. */
void derive_done(struct site *site);
/* Passwords may have changed: nothing that was derived is kept. */
void derive_forget_all(struct site *site);

typedef void derive_fn(struct derivation *derivation);

/* 1: it was derived lately, salted is filled.  0: done comes later, unless *job is
 * cancelled (external_cancel).  -1 and err, for the peer: it cannot be done now. */
int derive_salted(struct site *site, const struct scram_due *due, derive_fn *done,
    void *owner, uint8_t salted[SCRAM_KEY_LEN], struct external_job **job,
    struct err *err);
/* This one has proven right: the next one of its kind costs nothing. */
void derive_keep(struct site *site, const struct scram_due *due,
    const uint8_t salted[SCRAM_KEY_LEN]);
/* Is there so much to be derived that nothing must be derived in vain? */
bool derive_is_busy(const struct site *site);

/* The verifier of a user whose secret is a plain password: salt and rounds are there at
 * once, the keys when user->has_adhoc_keys. */
const struct scram_verifier *derive_verifier(struct user *user, uint32_t rounds);
/* Is it the user's verifier that the login proves against?  A reload makes another. */
bool derive_is_shared(const struct client *client);
/* Have the keys of the user's verifier derived, once for all who wait for them.  The
 * login goes on by login->derived; 0, or -1 and err. */
int derive_verifier_keys(struct client *client, struct err *err);
/* Of a login that ends, in whatever way. */
void derive_leave(struct client *client);

#endif
