/*
 * The process as the operating system sees it: its account, terminal and limits.
 */
#ifndef DAEMON_PROCESS_H
#define DAEMON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/log.h"

/* Makes the process run as this account.  If it is root's, it also gives up its
 * supplementary groups. */
int process_switch_user(const char *name, struct err *err);

/* Puts the process into the background: the caller continues in a grandchild, and the
 * original process exits.  If starter is NULL it exits at once; else it waits for
 * process_tell_starter, and exits with status 1 if the grandchild ends without calling
 * that.  stdin and stdout are redirected to /dev/null, and stderr unless keeps_stderr.
 */
int process_to_background(int *starter, bool keeps_stderr, struct err *err);
/* Tells the original process that the start has succeeded.  Does nothing if *starter is
 * -1. */
void process_tell_starter(int *starter);

/* Ignores SIGPIPE, so that writing to a closed connection does not end the process. */
void process_ignore_sigpipe(void);

/* Logs the line `kernel file descriptor limit: ...`. */
void process_log_limits(struct log *log, long long max_client_conn, long long expected);

#endif
