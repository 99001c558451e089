/*
 * Proofs that somebody else has to judge: the operating system (which account is behind
 * a unix socket), PAM, an LDAP directory.  All of them may be slow: the client waits,
 * nobody else does (auth/workers.h).
 */
#ifndef LOGIN_PROOF_EXTERNAL_H
#define LOGIN_PROOF_EXTERNAL_H

#include "login/proof.h"

/* Is the account at the other end of the unix socket the user, by the rule's map? */
enum proof proof_external_ask_account(struct client *client);
/* Is this the password of the user, says LDAP or PAM?  When it is, it is remembered for
 * logins to servers. */
enum proof proof_external_ask_password(struct client *client, const char *password);

#endif
