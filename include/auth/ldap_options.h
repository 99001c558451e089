/*
 * The options of an LDAP login, from an `ldap` line of an HBA file or from
 * auth_ldap_options, and what is made from them for one user: DN, filter, addresses.
 * This is text only: there is no connection and no LDAP library here.
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

/* Strings are owned; NULL = not given. */
struct ldap_options {
	char *servers; /* host names separated by blanks; NULL: ask DNS */
	int port;      /* 0 = the scheme's own */
	bool is_ldaps, is_starttls;
	char *prefix, *suffix; /* simple bind */
	char *base_dn;         /* search and bind */
	char *bind_dn, *bind_password;
	char *search_attribute, *search_filter;
	enum ldap_options_scope scope;
};

/* Reads `key=value` pairs, separated by blanks and at most one comma, and checks that
 * they can be used together.  Anything else is an error.  -1: err says what is wrong
 * without showing a value that may be a password; o needs no ldap_options_done. */
int ldap_options_parse(struct ldap_options *o, const char *text, struct err *err);
void ldap_options_done(struct ldap_options *o); /* wipes */

bool ldap_options_has_search(const struct ldap_options *o);
/* Appends prefix + user + suffix, which is no secret. */
void ldap_options_put_dn(
    const struct ldap_options *o, struct buf *out, const char *user);
/* Appends the filter that finds the user; -1 when the name has characters with a
 * meaning in filters. */
int ldap_options_put_filter(
    const struct ldap_options *o, struct buf *out, const char *user, struct err *err);
/* Appends "ldap://host:port" for each server, separated by blanks; hosts with a port of
 * their own ("host:port", "[::1]:port") keep it.  hosts is o->servers, or the answer of
 * DNS. */
void ldap_options_put_uris(
    const struct ldap_options *o, struct buf *out, const char *hosts);

#endif
