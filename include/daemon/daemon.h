/*
 * One running pooler: starts, connects and ends its parts.
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <stdbool.h>

#include "base/list.h"
#include "daemon/loaded_config.h"
#include "daemon/options.h"
#include "daemon/pidfile.h"
#include "daemon/reload_run.h"
#include "net/loop.h"
#include "session/site.h"

struct workers;
struct draining;
struct giving;
struct rebalance;
struct taking;
struct worker_threads;

struct daemon {
	struct site site;
	/* the site borrows settings, rules and TLS contexts from it */
	struct loaded_config in_force;
	struct reload_run reloads;
	struct deadline stats_due; /* the next line of statistics */
	struct deadline tidy_due;  /* the next search for what has been idle for long */
	struct deadline
	    watchdog_due;            /* the next sign of life for the service manager */
	struct deadline tls_due;     /* the next check of the files of certificates */
	struct deadline exit_due;    /* the next check whether a shutdown is complete */
	struct deadline suspend_due; /* the next check whether a SUSPEND is complete */
	uint64_t suspend_until_us;   /* when clients that have not stopped are closed */
	bool is_cut_short;           /* the process ends with an error status */
	struct pidfile pidfile;
	bool takes_over; /* -R was given, and an old process runs */
	int starter; /* descriptor to the process that waits in the foreground until the
			start succeeds; -1: none */
	/* the takeover by a newer process, or NULL; see takeover.h */
	struct giving *giving;
	struct taking *taking;     /* the takeover from an older process, or NULL */
	struct draining *draining; /* the older process keeps its clients; or NULL */
	struct workers *workers;   /* owned; NULL: one worker, which is this thread */
	struct worker_threads *threads; /* owned: its threads; or NULL */
	struct rebalance *rebalance;    /* owned: see rebalance.h; NULL: one worker */
	/* borrowed */
	const struct options *options;
};

static inline struct daemon *site_daemon(struct site *site)
{
	return container_of(site, struct daemon, site);
}

/* Starts the pooler, serves until the end, and returns the exit status.  Errors have
 * been logged. */
int daemon_run(const struct options *options);

#endif
