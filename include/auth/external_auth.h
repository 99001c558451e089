/*
 * Logins whose password an LDAP directory or PAM checks.  Both are
 * synchronous and slow, so a job asks them on a helper thread.
 */
#ifndef AUTH_EXTERNAL_AUTH_H
#define AUTH_EXTERNAL_AUTH_H

#include <stdbool.h>

#include "auth/helpers.h"
#include "auth/ldap_options.h"
#include "base/err.h"

/* Whether the program was built with PAM, and with LDAP. */
bool external_auth_has_pam(void);
bool external_auth_has_ldap(void);

/*
 * Asks the PAM service `pgbouncer` for authentication and account management.  host is
 * the client's address as text, or "unix".  Returns 0 when PAM accepts the user;
 * otherwise, or when the program was built without PAM, -1 and err, which is for the
 * log only.
 */
int external_auth_pam_check(
    const char *user, const char *password, const char *host, struct err *err);

/*
 * Asks a directory by a simple bind, or by search and bind.  job may be NULL; otherwise
 * the function stops when it was cancelled.  Returns 0 when the directory accepts the
 * password; otherwise -1 and err, which is for the log only and never shows a
 * password.  An empty password is refused, because directories would accept it as an
 * anonymous login.
 */
int external_auth_ldap_check(const struct ldap_options *options, const char *user,
    const char *password, const struct helpers_job *job, struct err *err);

/* The job.  done() gets this struct. */
struct external_auth {
	struct helpers_job job;
	/* owned copies */
	char *user, *password;
	char *host;    /* only for PAM */
	char *options; /* only for LDAP: their text, which the helper thread parses */
	/* 0 or -1; err says why, for the log */
	int result;
	struct err err;
	/* borrowed */
	void (*done)(struct external_auth *login);
	void *owner;
};

/* Make a job with copies of everything.  NULL: no memory.  The caller submits
 * `&login->job`, or ends it with external_auth_discard if that fails. */
struct external_auth *external_auth_new_pam(const char *user, const char *password,
    const char *host, void (*done)(struct external_auth *login), void *owner);
struct external_auth *external_auth_new_ldap(const char *user, const char *password,
    const char *options, void (*done)(struct external_auth *login), void *owner);
void external_auth_discard(struct external_auth *login);

#endif
