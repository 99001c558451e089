/*
 * A configuration that a helper thread loads, because its files are long, and long
 * things that are freed there.
 */
#ifndef DAEMON_LOAD_JOB_H
#define DAEMON_LOAD_JOB_H

#include <stdbool.h>

#include "auth/helpers.h"
#include "daemon/loaded_config.h"

struct load_job;

/* Would loading this ini file, or the user list that is in force, delay the loop? Small
 * regular files do not. */
bool load_job_is_due(const char *path, const struct loaded_config *running);

/* loaded_config_load() for a reload, on a helper thread; done(owner, next, result) is
 * called on the loop's thread and may take over what next has.  NULL: no thread is to
 * be had. */
typedef void load_done_fn(void *owner, struct loaded_config *next, int result);
struct load_job *load_job_submit(struct helpers *helpers, const char *path,
    const struct loaded_config *running, load_done_fn *done, void *owner);
/* done() will not be called; not from inside it. */
void load_job_cancel(struct load_job *job);

/* Drops a reference to a user list and one to a snapshot on a helper thread, if one is
 * to be had.  Either may be NULL; both are NULL afterwards. */
void load_job_free(
    struct helpers *helpers, struct userlist **users, struct config **config);

#endif
