/*
 * A user name and a password that an LDAP directory or PAM judges.
 * Both are synchronous and slow, so the job asks them on a helper thread.
 */
#ifndef AUTH_JUDGE_H
#define AUTH_JUDGE_H

#include <stdbool.h>

#include "auth/ldap_options.h"
#include "auth/workers.h"
#include "base/err.h"

/* Was the program built with PAM, with LDAP? */
bool judge_has_pam(void);
bool judge_has_ldap(void);

/*
 * PAM service `pgbouncer`: authentication and account management.  host is the client's
 * address as text, or "unix".  0 when PAM lets the user in; -1 and err, which is for
 * the log, when it does not, or when the program was built without PAM.
 */
int judge_pam_check(
    const char *user, const char *password, const char *host, struct err *err);

/*
 * Simple bind, or search and bind.  job, which may be NULL, is asked now and then
 * whether it has been cancelled.  0 when the directory accepts the password; -1 and
 * err, which is for the log and never shows a password, otherwise.  An empty
 * password is refused: directories take it for an anonymous login, and accept it.
 */
int judge_ldap_check(const struct ldap_options *options, const char *user,
    const char *password, const struct workers_job *job, struct err *err);

/* The job; done() of the owner is given this struct. */
struct judge {
	struct workers_job job;
	/* owned copies */
	char *user, *password;
	char *host;    /* PAM only */
	char *options; /* LDAP only: the text, read on the thread */
	/* The result: 0 or -1, and why, for the log. */
	int result;
	struct err err;
	/* borrowed */
	void (*done)(struct judge *login);
	void *owner;
};

/* Copies everything.  NULL when there is no memory.  Submit `&login->job`; whoever
 * could not, ends it with judge_discard. */
struct judge *judge_new_pam(const char *user, const char *password, const char *host,
    void (*done)(struct judge *login), void *owner);
struct judge *judge_new_ldap(const char *user, const char *password,
    const char *options, void (*done)(struct judge *login), void *owner);
void judge_discard(struct judge *login);

#endif
