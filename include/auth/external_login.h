/*
 * A user name and a password that somebody else is to judge: an LDAP directory or PAM.
 * The judges are synchronous and slow; the job runs one of them on a helper thread.
 */
#ifndef AUTH_EXTERNAL_LOGIN_H
#define AUTH_EXTERNAL_LOGIN_H

#include <stdbool.h>

#include "auth/external.h"
#include "auth/ldap_options.h"
#include "base/err.h"

/* Was it there when the program was built? */
bool external_has_pam(void);
bool external_has_ldap(void);

/*
 * PAM service `pgbouncer`: authentication and account management.  host is the client's
 * address as text, or "unix".  0 when PAM lets the user in; -1 and err, which is for
 * the log, when it does not, or when the program was built without PAM.
 */
int external_pam_check(
    const char *user, const char *password, const char *host, struct err *err);

/*
 * Simple bind, or search and bind.  job, which may be NULL, is asked now and then
 * whether it has been cancelled.  0 when the directory accepts the password; -1 and
 * err, which is for the log and never shows a password, otherwise.  An empty
 * password is refused: directories take it for an anonymous login, and accept it.
 */
int external_ldap_check(const struct ldap_options *options, const char *user,
    const char *password, const struct external_job *job, struct err *err);

/* The job; done() of the owner is given this struct. */
struct external_login {
	struct external_job job;
	/* owned copies */
	char *user, *password;
	char *host;    /* PAM only */
	char *options; /* LDAP only: the text, read on the thread */
	/* The result: 0 or -1, and why, for the log. */
	int result;
	struct err err;
	/* borrowed */
	void (*done)(struct external_login *login);
	void *owner;
};

/* Copies everything.  NULL when there is no memory.  Submit `&login->job`; whoever
 * could not, ends it with external_login_discard. */
struct external_login *external_login_pam(const char *user, const char *password,
    const char *host, void (*done)(struct external_login *login), void *owner);
struct external_login *external_login_ldap(const char *user, const char *password,
    const char *options, void (*done)(struct external_login *login), void *owner);
void external_login_discard(struct external_login *login);

#endif
