/*
 * Proofs that the pooler cannot check itself: it asks the operating system (which
 * account is behind a unix socket), PAM or an LDAP directory.  All of them may be slow,
 * so they are asked on helper threads (auth/helpers.h), as Kerberos is (proof_gss.h).
 */
#ifndef LOGIN_PROOF_EXTERNAL_H
#define LOGIN_PROOF_EXTERNAL_H

#include "auth/helpers.h"
#include "login/proof.h"

/* Hands over a job that decides about the client, and waits for its end.  -1: the queue
 * of the helper threads is full; the client has got an error, and the job still belongs
 * to the caller. */
int proof_external_submit(struct client *client, struct helpers_job *job);
/* Such a job is done: continues the login with what it has found. */
void proof_external_end(struct client *client, enum proof proof);

/* Asks whether the account at the other end of the unix socket may log in as the user,
 * by the ident map of the rule. */
enum proof proof_external_ask_account(struct client *client);
/* Asks LDAP or PAM whether this is the user's password.  If it is, logins to servers
 * use it too. */
enum proof proof_external_ask_password(struct client *client, const char *password);

#endif
