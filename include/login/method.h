/*
 * How a client has to prove who it is: auth_type, or the HBA rule that fits it
 * (configuration.md 9; protocol.md 3, 4).  It proves nothing and refuses nobody: the
 * rule "reject" is a method too, and the login acts on it.
 */
#ifndef LOGIN_METHOD_H
#define LOGIN_METHOD_H

#include "auth/hba.h"
#include "session/client.h"

enum method {
	METHOD_KNOWN, /* login->method is set, and login->rule when it came from one */
	METHOD_LATER, /* a rule needs the name of the client's host, which is being
			 looked up */
};

typedef void method_known_fn(struct client *client);
/* Chooses the method of client->login.  After METHOD_LATER, known is called when it is
 * chosen; never before this function returns. */
enum method method_choose(struct client *client, method_known_fn *known);
/* Ends a look-up that still runs.  Call it whenever a login ends. */
void method_done(struct client *client);

/* The method that a rule asks for. */
enum auth_type method_of_rule(const struct hba_rule *rule);
/* Can a login by this method succeed?  If not (AUTH_REJECT, AUTH_NONE), it makes no
 * difference whether the user exists. */
bool method_may_succeed(enum auth_type method);
/* Does LDAP or PAM check the password?  Then a user may exist who is in no list of the
 * pooler. */
bool method_is_external(enum auth_type method);

#endif
