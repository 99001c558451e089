/*
 * Proofs that somebody else has to judge: the operating system (which account is behind
 * a unix socket), PAM, an LDAP directory.  All of them may be slow: the client waits,
 * nobody else does (auth/external.h).
 */
#ifndef SESSION_OUTSIDE_H
#define SESSION_OUTSIDE_H

#include "session/proof.h"

int outside_init(struct site *site, struct err *err);
void outside_done(struct site *site);

/* Is the account at the other end of the unix socket the user, by the rule's map? */
enum proof outside_ask_account(struct client *client);
/* Is this the password of the user, says LDAP or PAM?  When it is, it is remembered for
 * logins to servers. */
enum proof outside_ask_password(struct client *client, const char *password);

#endif
