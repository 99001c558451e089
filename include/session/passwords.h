/*
 * Passwords for logins to servers that programs print or files hold: fetched on helper
 * threads, one at a time for each host and user over all sites, and kept.
 */
#ifndef SESSION_PASSWORDS_H
#define SESSION_PASSWORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/password_job.h"
#include "session/site.h"

struct kept_password;

/* Makes site->passwords, which uses the table that all sites share. */
void passwords_init(struct site *site);
/* Call it after the helper threads have ended. */
void passwords_done(struct site *site);
/* All passwords are fetched again before they are used, for all sites. */
void passwords_forget_all(struct site *site);

/* One login that needs a password. */
struct password_wait {
	/* It has come: the receiver frees it (mem_free_secret).  NULL: it has failed,
	 * which has been logged, and err says why. */
	void (*done)(struct password_wait *wait, char *password, const struct err *err);
	/* used by passwords.c only */
	struct node node; /* in the site's list while it waits */
	struct site *site;
	struct kept_password *from;
	unsigned number;
};

/* Returns a password that is kept, or NULL: wait->done will be called.  lifetime_us is
 * counted from the beginning of the fetch.  Ends with passwords_leave in any case. */
char *passwords_get(struct site *site, const struct password_request *request,
    uint64_t lifetime_us, struct password_wait *wait);
/* A server refuses the password that the wait has got, which is not used again.  Is it
 * worth another attempt?  False: it had just been fetched for the same reason. */
bool passwords_refused(struct password_wait *wait);
/* A server has accepted the password. */
void passwords_accepted(struct password_wait *wait);
/* The login is over, or given up.  Does nothing if it has not begun. */
void passwords_leave(struct password_wait *wait);

#endif
