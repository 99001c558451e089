/*
 * The process as the system sees it: its user, its pidfile, its terminal, its limits.
 */
#ifndef DAEMON_PROCESS_H
#define DAEMON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/log.h"

/* Become this system user; supplementary groups are given up when we are root. */
int process_switch_user(const char *name, struct err *err);

/* May a pidfile be written here?  A missing one is fine, one of a dead process is
 * logged and removed; -1 and err otherwise. */
int process_check_pidfile(const char *path, struct log *log, struct err *err);
/* Write our process id into a file that does not exist. */
int process_write_pidfile(const char *path, struct err *err);

/* Leave the terminal: the caller goes on as a grandchild, and the parent ends here: at
 * once, or with starter (process_tell_starter) when it is told that all is well; it
 * ends with status 1 when the grandchild ends without that.  Input and output are gone
 * then, and stderr unless it is kept. */
int process_to_background(int *starter, bool keeps_stderr, struct err *err);
/* -1: nobody waits. */
void process_tell_starter(int *starter);

/* A peer that hangs up must not end us. */
void process_ignore_sigpipe(void);

/* The line `kernel file descriptor limit: ...`. */
void process_log_limits(struct log *log, long long max_client_conn, long long expected);

#endif
