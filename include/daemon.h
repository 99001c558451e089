/*
 * One running pooler: everything wired together, from start to end.
 */
#ifndef DAEMON_H
#define DAEMON_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/list.h"
#include "net/loop.h"
#include "options.h"
#include "session/site.h"

struct daemon {
	struct site site;
	struct buf warnings; /* what the last load warned of, one text after another */
	struct deadline stats_due; /* the next line of statistics */
	struct deadline tidy_due;  /* the next look at what has been idle for long */
	struct deadline tls_due;   /* the next look at the files of certificates */
	struct deadline exit_due;  /* the next look whether a shutdown is complete */
	bool owns_pidfile;
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
