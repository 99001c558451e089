/*
 * How a client has to prove who it is: auth_type, or the HBA rule that fits it
 * (configuration.md 9; protocol.md 3, 4).  It proves nothing and refuses nobody: the
 * rule "reject" is a method too, and the login acts on it.
 */
#ifndef LOGIN_METHOD_H
#define LOGIN_METHOD_H

#include "auth/hba.h"
#include "auth/secret.h"
#include "base/errors.h"
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

/* The functions below decide without a client, so that EXPLAIN LOGIN asks them too. */

/* Finds the method of the first rule that fits the peer; rules NULL: there are none.
 * AUTH_NONE with HBA_NO_MATCH, AUTH_REJECT with HBA_OTHER_SPELLING.  With
 * HBA_NEEDS_NAME only *rule is set. */
enum hba_result method_by_rules(const struct access_rules *rules,
    const struct hba_peer *peer, const struct hba_rule **rule, enum auth_type *method);
/* Can a login by this method succeed?  If not (AUTH_REJECT, AUTH_NONE), it makes no
 * difference whether the user exists. */
bool method_may_succeed(enum auth_type method);
/* Does LDAP, PAM, Kerberos or the issuer of a token say who it is?  Then a user may
 * exist who is in no list of the pooler. */
bool method_is_external(enum auth_type method);
/* The error for a client that has not proven who it is; its text may have one argument,
 * the name of the user. */
enum error_id method_failure(enum auth_type method);
/* Why PAM or LDAP cannot check a password, or a token cannot be checked: this build
 * does not support it, or auth_ldap_options is not set.  ERROR_COUNT: it can, or the
 * method needs neither. */
enum error_id method_missing_external(enum auth_type method,
    const struct hba_rule *rule, const struct settings *settings);
/* Is a login refused without channel binding?  Not over a unix socket, where a man in
 * the middle is not possible. */
bool method_requires_binding(
    const struct sock_addr *remote, const struct settings *settings);
/* Is a user with such a secret asked for SCRAM?  With auth_type=md5 only one with a
 * SCRAM secret is; who cannot succeed is asked as most users of the list are, so that
 * the question does not tell who exists. */
bool method_asks_scram(
    enum auth_type method, enum secret_kind kind, bool is_mostly_scram);

#endif
