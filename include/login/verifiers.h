/*
 * SCRAM verifiers of users whose secret is a plain password.  A verifier is made, and
 * its keys are derived, when the first login needs them; later logins use the same.
 */
#ifndef LOGIN_VERIFIERS_H
#define LOGIN_VERIFIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/scram.h"
#include "session/client.h"

/* Frees site->verifier_waits.  Call it after the helper threads have ended. */
void verifiers_forget_all(struct site *site);

/* The verifier of a user whose secret is a plain password.  It always has a salt and
 * the number of rounds; it has keys only if user->has_adhoc_keys is set.  The user owns
 * it; it is made anew when the number of rounds or the password changes.  The salt is
 * the same at every site: users that do not exist have one salt, too. */
const struct scram_verifier *verifiers_of_user(
    const struct site *site, struct user *user, uint32_t rounds);
/* Is the login's copy of the verifier (login->verifier) still the one that its user
 * has?  After a reload it may be an older one. */
bool verifiers_is_shared(const struct client *client);
/* Derives the keys of the user's verifier on a helper thread, once for all logins that
 * wait for them.  0: login->derived is called when they are there, unless
 * verifiers_leave is called first.  -1 and err: the queue of the helper threads is
 * full, or there is no memory. */
int verifiers_derive_keys(struct client *client, struct err *err);
/* The login waits for keys no longer.  Call it whenever a login ends. */
void verifiers_leave(struct client *client);

#endif
