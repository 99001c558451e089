/*
 * The threads of `workers`: started before the listening sockets open, ended when the
 * process ends.
 */
#ifndef DAEMON_TEAM_H
#define DAEMON_TEAM_H

#include "base/err.h"
#include "conf/config.h"
#include "session/site.h"

struct daemon;
struct team;

/* How many workers these settings ask for: with `auto` as many as there are processors
 * for this process. */
unsigned team_size(const struct settings *settings);

/* How many descriptors so many workers need besides those of clients and servers, and
 * of what the process has with one of them. */
unsigned team_descriptors(unsigned count);

/* Starts the threads and waits until each has built its site.  Nothing happens with one
 * worker.  -1 and err. */
int team_start(struct daemon *d, const struct settings *settings, struct err *err);
/* Ends them: connections close.  Before the control site is taken apart. */
void team_stop(struct daemon *d);

#endif
