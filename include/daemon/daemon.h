/*
 * One running pooler: everything wired together, from start to end.
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <stdbool.h>

#include "base/list.h"
#include "daemon/configuration.h"
#include "daemon/options.h"
#include "daemon/reload_run.h"
#include "net/loop.h"
#include "session/site.h"

struct crew;
struct giving;
struct taking;
struct team;

struct daemon {
	struct site site;
	struct configuration in_force; /* what the site borrows its parts from */
	struct reload_run reloads;
	struct deadline stats_due; /* the next line of statistics */
	struct deadline tidy_due;  /* the next look at what has been idle for long */
	struct deadline
	    watchdog_due;            /* the next sign of life for the service manager */
	struct deadline tls_due;     /* the next look at the files of certificates */
	struct deadline exit_due;    /* the next look whether a shutdown is complete */
	struct deadline suspend_due; /* the next look whether all stands still */
	uint64_t suspend_until_us;   /* then what does not is closed */
	bool is_cut_short;           /* the process ends with an error status */
	bool owns_pidfile;
	bool takes_over;       /* -R, and there is a process to take over from */
	int starter;           /* waits for us in the foreground, or -1 */
	struct giving *giving; /* to a newer process, or NULL; see takeover.h */
	struct taking *taking; /* from an older process, or NULL */
	struct crew *crew;     /* owned; NULL: one worker, which is this thread */
	struct team *team;     /* owned: its threads; or NULL */
	/* borrowed */
	const struct options *options;
};

static inline struct daemon *site_daemon(struct site *site)
{
	return container_of(site, struct daemon, site);
}

/* Start, serve, and end.  Returns the exit status; errors have been logged. */
int daemon_run(const struct options *options);

#endif
