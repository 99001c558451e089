/*
 * One reading of the user list: on the loop's thread, or on a helper's where the file
 * is large.
 */
#ifndef DAEMON_USERS_READ_H
#define DAEMON_USERS_READ_H

#include <stdbool.h>

#include "auth/userlist.h"
#include "auth/workers.h"
#include "base/mark.h"
#include "daemon/findings.h"

struct users_read {
	char *path;             /* owned */
	struct mark mark;       /* of the file, from before it was read */
	struct userlist *users; /* owned; NULL: err says why */
	struct findings findings;
	struct err err;
};

void users_read_init(struct users_read *r, const char *path);
void users_read_done(struct users_read *r);
/* Reads the file.  Touches nothing but r. */
void users_read_load(struct users_read *r);

/* Would it hold up the loop?  A small regular file does not. */
bool users_read_is_long(const char *path);

/* The same as a job: done(owner, r) is called on the loop's thread. */
struct users_job;
typedef void users_read_fn(void *owner, struct users_read *r);
/* NULL: no thread is to be had. */
struct users_job *users_read_submit(
    struct workers *workers, const char *path, users_read_fn *done, void *owner);
/* done() will not be called; not from inside it. */
void users_read_cancel(struct users_job *job);

/* Wipe and free a list on a helper thread if one is to be had.  *users is NULL then. */
void users_read_free_list(struct workers *workers, struct userlist **users);

#endif
