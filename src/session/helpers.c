/*
 * The helper threads of a site, and the watch through which their results come back to
 * the loop.
 */
#include "session/helpers.h"

#include "auth/workers.h"
#include "session/crew.h"

static void helpers_answered(void *ctx, int fd)
{
	struct site *site = ctx;
	(void)fd;
	workers_collect(site->workers);
}

int helpers_init(struct site *site, struct err *err)
{
	struct workers_mutex *mutex = site->crew ? site->crew->crew->mutex : NULL;

	site->workers = workers_new(WORKERS_ASK_THREADS, WORKERS_ASK_QUEUE, mutex, err);
	if (!site->workers)
		return -1;
	site->external_watch = watch_new(
	    site->loop, workers_fd(site->workers), WATCH_READ, helpers_answered, site);
	return 0;
}

void helpers_done(struct site *site)
{
	if (site->external_watch)
		watch_free(&site->external_watch);
	if (site->workers)
		workers_free(&site->workers);
}
