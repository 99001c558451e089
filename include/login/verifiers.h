/*
 * SCRAM verifiers of users whose secret is a plain password: made and derived when a
 * login needs them, each once.
 */
#ifndef LOGIN_VERIFIERS_H
#define LOGIN_VERIFIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/scram.h"
#include "session/client.h"

/* No login waits for keys yet. */
void verifiers_init(struct site *site);
/* Frees what verifiers_init made.  Call it after the helper threads have ended. */
void verifiers_done(struct site *site);

/* The verifier of a user whose secret is a plain password.  It has a salt and the
 * number of rounds at once, and keys only when user->has_adhoc_keys is set.  The user
 * owns it; it is made anew when the number of rounds or the password changes.  The salt
 * is the same at every site: users that do not exist have one salt, too. */
const struct scram_verifier *verifiers_of_user(
    const struct site *site, struct user *user, uint32_t rounds);
/* Does this login check its proof against the verifier that its user has now?  After a
 * reload it may still have an older one. */
bool verifiers_is_shared(const struct client *client);
/* Have the keys of the user's verifier derived on a helper thread, once for all logins
 * that wait for them.  0: login->derived is called when they are there, unless
 * verifiers_leave comes first.  -1 and err: the queue of the helper threads is full, or
 * there is no memory. */
int verifiers_derive_keys(struct client *client, struct err *err);
/* The login ends, in whatever way, and waits for keys no longer. */
void verifiers_leave(struct client *client);

#endif
