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

/* Puts the process into the background: the caller continues in a grandchild.  The
 * original process waits for process_tell_starter and exits with status 0, or with
 * status 1 if the grandchild ends without calling that.  stdin and stdout are
 * redirected to /dev/null; stderr stays for what stops the start. */
int process_to_background(int *starter, struct err *err);
/* Tells the original process that the start has succeeded, and redirects stderr to
 * /dev/null unless keeps_stderr.  Does nothing if *starter is -1. */
void process_tell_starter(int *starter, bool keeps_stderr);

/* Ignores SIGPIPE, so that writing to a closed connection does not end the process. */
void process_ignore_sigpipe(void);

/* Returns a descriptor that becomes readable when the process has ended, which is the
 * caller's; -1: there is no such process, or the system has no such descriptors. */
int process_open(int pid);

/* Logs the line `kernel file descriptor limit: ...`, and a warning if it is too low.
 * has_servers: those of servers are among the expected descriptors. */
void process_log_limits(
    struct log *log, long long max_client_conn, long long expected, bool has_servers);

#endif
