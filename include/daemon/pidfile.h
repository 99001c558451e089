/*
 * The pidfile.  It is claimed early, when a failure still costs nothing: our process id
 * is in a locked file beside it, PATH.new, which gets its name when this process is up.
 */
#ifndef DAEMON_PIDFILE_H
#define DAEMON_PIDFILE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"

struct pidfile {
	char *path;     /* owned; NULL: none is configured */
	char *new_path; /* owned; PATH.new */
	int fd;         /* PATH.new, locked; -1: not claimed */
	bool is_ours;   /* PATH names this process */
};

/* path: NULL or "" if there is none. */
void pidfile_init(struct pidfile *p, const char *path);

/* May this process replace what is at the path?  Nothing, a file that names `elder`
 * (0: nobody), or one of a process that has ended, or does so within patience_ms, which
 * is logged and removed.  -1 and err: another process may use it. */
int pidfile_check(const struct pidfile *p, long elder, int patience_ms, struct log *log,
    struct err *err);
/* Makes and locks PATH.new.  -1 and err: the folder is missing or cannot be written, or
 * another process that starts has it. */
int pidfile_claim(struct pidfile *p, struct err *err);
/* Writes our process id into it.  Call it after the process has gone into the
 * background; the claim goes along. */
int pidfile_write(struct pidfile *p, struct err *err);
/* Gives PATH.new its name. */
int pidfile_publish(struct pidfile *p, struct err *err);
/* Publishes again if an older process has removed the file that was published. */
int pidfile_restore(struct pidfile *p, struct err *err);
/* Removes what is ours: PATH.new before it was published, PATH afterwards, unless it
 * names another process by now. */
void pidfile_remove(struct pidfile *p);
void pidfile_done(struct pidfile *p);

#endif
