/*
 * Proofs that the pooler cannot check itself: it asks the operating system (which
 * account is behind a unix socket), PAM or an LDAP directory.  All of them may be slow,
 * so they are asked on helper threads (auth/workers.h).
 */
#ifndef LOGIN_PROOF_EXTERNAL_H
#define LOGIN_PROOF_EXTERNAL_H

#include "login/proof.h"

/* May the account at the other end of the unix socket log in as the user, by the rule's
 * map? */
enum proof proof_external_ask_account(struct client *client);
/* Do LDAP or PAM accept this password of the user?  If so, it is remembered for logins
 * to servers. */
enum proof proof_external_ask_password(struct client *client, const char *password);

#endif
