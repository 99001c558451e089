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

void verifiers_init(struct site *site);
/* Call it after the helper threads have ended. */
void verifiers_done(struct site *site);

/* The verifier of a user whose secret is a plain password: salt and rounds are there at
 * once, the keys when user->has_adhoc_keys is set. */
const struct scram_verifier *verifiers_of_user(struct user *user, uint32_t rounds);
/* Does the login prove against its user's verifier?  A reload makes another one. */
bool verifiers_is_shared(const struct client *client);
/* Have the keys of the user's verifier derived, once for all who wait for them.  The
 * login goes on by login->derived; 0, or -1 and err. */
int verifiers_derive_keys(struct client *client, struct err *err);
/* The login ends, in whatever way. */
void verifiers_leave(struct client *client);

#endif
