/*
 * How a client has to prove who it is: auth_type, or the HBA rule that fits it
 * (configuration.md 9; protocol.md 3, 4).  It proves nothing and refuses nobody: that a
 * client is to be rejected is a method too.
 */
#ifndef LOGIN_METHOD_H
#define LOGIN_METHOD_H

#include "auth/hba.h"
#include "session/client.h"

enum method {
	METHOD_KNOWN, /* login->method is set, and login->rule when it came from one */
	METHOD_LATER, /* the name of the client's host must be found out first */
};

typedef void method_known_fn(struct client *client);
/* known is called after METHOD_LATER, never from inside the call. */
enum method method_choose(struct client *client, method_known_fn *known);
/* The login ends, in whatever way. */
void method_done(struct client *client);

/* The method that a rule asks for. */
enum auth_type method_of_rule(const struct hba_rule *rule);
/* Does it matter for the method whether the user exists? */
bool method_may_succeed(enum auth_type method);
/* Do LDAP or PAM check the password, so that any user name may be right? */
bool method_is_external(enum auth_type method);

#endif
