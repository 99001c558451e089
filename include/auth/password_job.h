/*
 * A password for logins to servers that a program prints or a file holds, as a job for
 * a helper thread.
 */
#ifndef AUTH_PASSWORD_JOB_H
#define AUTH_PASSWORD_JOB_H

#include <stdint.h>

#include "auth/helpers.h"
#include "base/err.h"

enum { PASSWORD_MAX = 64 * 1024 };

/* Where a password comes from, and for which login. */
struct password_request {
	const char *command, *file; /* one of them is NULL */
	/* PGHOST ("": none), PGPORT, PGUSER and PGDATABASE of the program */
	const char *host, *user, *database;
	int port;
	uint64_t limit_us; /* after this the program is killed */
};

void password_request_copy(
    struct password_request *to, const struct password_request *from);
/* Frees the texts of a copy. */
void password_request_done(struct password_request *request);

/* Runs the program, or reads the file, and returns what it gives without a newline at
 * its end; for mem_free_secret.  NULL and err: it has failed, or gave nothing, or more
 * than PASSWORD_MAX bytes, or a NUL.  err begins with the program or file. */
char *password_job_fetch(const struct password_request *request,
    const struct helpers_job *job, struct err *err);

struct password_job {
	struct helpers_job job;
	struct password_request request; /* owned copies */
	char *password; /* the result, which done() may take; or NULL */
	struct err err;
	/* borrowed */
	void (*done)(struct password_job *job);
	void *owner;
};

struct password_job *password_job_new(const struct password_request *request,
    void (*done)(struct password_job *job), void *owner);
void password_job_discard(struct password_job *job);

#endif
