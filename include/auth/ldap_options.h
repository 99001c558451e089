/*
 * The options of an LDAP login, from an `ldap` line of an HBA file or from
 * auth_ldap_options, and the DN, filter and addresses that are built from them for one
 * user.  It handles text only: no connection, no LDAP library.
 */
#ifndef AUTH_LDAP_OPTIONS_H
#define AUTH_LDAP_OPTIONS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum ldap_options_scope {
	LDAP_OPTIONS_BASE,
	LDAP_OPTIONS_ONE,
	LDAP_OPTIONS_SUBTREE,
};

/* Strings are owned; NULL: the option is not given. */
struct ldap_options {
	/* host names separated by blanks; NULL: to be looked up in DNS */
	char *servers;
	int port; /* 0: the scheme's default port */
	bool is_ldaps, is_starttls;
	char *prefix, *suffix; /* for simple bind */
	char *base_dn;         /* for search and bind */
	char *bind_dn, *bind_password;
	char *search_attribute, *search_filter;
	enum ldap_options_scope scope;
	/* what is taken but hardly meant, or NULL */
	const char *warning;
};

/* Parses `key=value` pairs, which are separated by blanks and at most one comma, and
 * checks that they can be used together.  -1: err says what is wrong, but shows no
 * value that may be a password; ldap_options_done is then not needed. */
int ldap_options_parse(struct ldap_options *o, const char *text, struct err *err);
void ldap_options_done(struct ldap_options *o); /* wipes and frees */

bool ldap_options_has_search(const struct ldap_options *o);
/* Appends prefix, user and suffix, which together are the DN.  It is no secret.  The
 * user name is escaped if they are a DN and not, for example, user@domain.  -1: see
 * ldap_options_put_filter. */
int ldap_options_put_dn(
    const struct ldap_options *o, struct buf *out, const char *user, struct err *err);
/* Appends the filter that finds the user.  -1: the name has characters with a special
 * meaning in filters, or is in a form that directories take for another name: with
 * blanks at an end or control characters. */
int ldap_options_put_filter(
    const struct ldap_options *o, struct buf *out, const char *user, struct err *err);
/* Appends "ldap://host:port" for each host, separated by blanks; hosts with a port of
 * their own ("host:port", "[::1]:port") keep it.  hosts is o->servers, or the answer of
 * DNS. */
void ldap_options_put_uris(
    const struct ldap_options *o, struct buf *out, const char *hosts);

#endif
