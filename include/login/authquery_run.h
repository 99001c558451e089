/*
 * One run of auth_query: sends it to a server and reads the answer.  Which logins wait
 * for it is authquery.c's.
 */
#ifndef LOGIN_AUTHQUERY_RUN_H
#define LOGIN_AUTHQUERY_RUN_H

#include "login/login_query.h"

struct authquery_run {
	struct login_query query;
	uint64_t sent_us;
	/* The answer: the last row. */
	char *user;   /* owned; NULL: no row */
	char *secret; /* owned */
};

/* Asks the server of its request for this user name; query.over follows. */
void authquery_run_send(struct authquery_run *run, const char *text, const char *name);
/* How the run has ended, for the views; NULL: well. */
void authquery_run_note(struct authquery_run *run, const char *failure);
void authquery_run_done(struct authquery_run *run);

#endif
