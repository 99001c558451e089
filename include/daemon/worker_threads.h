/*
 * The threads of the setting `workers`.  They start before the listening sockets open,
 * and end with the process.
 */
#ifndef DAEMON_WORKER_THREADS_H
#define DAEMON_WORKER_THREADS_H

#include "base/err.h"
#include "conf/config.h"
#include "session/site.h"

struct daemon;
struct worker_threads;

/* How many workers these settings ask for; `auto` means one for each processor that the
 * process may use. */
unsigned worker_threads_count(const struct settings *settings);

/* How many descriptors this number of workers needs in addition to those of a process
 * with one worker, without those of clients and servers. */
unsigned worker_threads_descriptors(unsigned count);

/* Starts the threads and waits until each has built its site.  Does nothing with one
 * worker.  -1 and err: a worker could not be started. */
int worker_threads_start(
    struct daemon *d, const struct settings *settings, struct err *err);
/* Closes the workers' connections and ends the threads.  Call it before the control
 * site is freed. */
void worker_threads_stop(struct daemon *d);

#endif
