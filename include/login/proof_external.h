/*
 * Proofs that the pooler cannot check itself: it asks the operating system (which
 * account is behind a unix socket), PAM or an LDAP directory.  All of them may be slow,
 * so they are asked on helper threads (auth/helpers.h).
 */
#ifndef LOGIN_PROOF_EXTERNAL_H
#define LOGIN_PROOF_EXTERNAL_H

#include "login/proof.h"

/* Asks whether the account at the other end of the unix socket may log in as the user,
 * by the ident map of the rule. */
enum proof proof_external_ask_account(struct client *client);
/* Asks LDAP or PAM whether this is the user's password.  If it is, logins to servers
 * use it too. */
enum proof proof_external_ask_password(struct client *client, const char *password);

#endif
