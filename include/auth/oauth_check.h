/*
 * Checks a token on a helper thread: by the keys of its issuer, or by a program.
 */
#ifndef AUTH_OAUTH_CHECK_H
#define AUTH_OAUTH_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/helpers.h"
#include "auth/oauth_keys.h"
#include "auth/oauth_token.h"

/* How long a program may take. */
enum { OAUTH_PROGRAM_US = 10 * 1000 * 1000 };
/* The longest name that it may print. */
enum { OAUTH_NAME_MAX = 1024 };

/* Whose token it is said to be, and what it has to fulfil. */
struct oauth_request {
	const char *token;
	size_t token_len;
	const char *issuer; /* as it is configured */
	const char *scope;
	/* with keys; NULL: the program decides */
	struct oauth_keys *keys;
	const char *audience, *name_claim;
	/* with a program: PGUSER and PGDATABASE in its environment; and whether it
	 * decides also that this user may log in, so that it need print no name */
	const char *command, *user, *database;
	bool is_delegated;
};

/* The job.  done() gets this struct. */
struct oauth_check {
	struct helpers_job job;
	struct oauth_request request; /* owned copies */
	enum oauth_verdict verdict;
	char *name;     /* owned: with OAUTH_VALID, unless it was delegated */
	struct err err; /* why not, for the log */
	/* borrowed */
	void (*done)(struct oauth_check *check);
	void *owner;
};

/* Makes a job with copies of everything, which waits in this lane if it is one for keys
 * (auth/helpers.h).  NULL: no memory. */
struct oauth_check *oauth_check_new(const struct oauth_request *request, uint32_t lane,
    void (*done)(struct oauth_check *check), void *owner);
void oauth_check_discard(struct oauth_check *check);

#endif
