/*
 * The helper threads of a site, and the watch through which their results come back to
 * the loop.
 */
#include "session/site_helpers.h"

#include "auth/helpers.h"
#include "session/workers.h"

static void helpers_answered(void *ctx, int fd)
{
	struct site *site = ctx;
	(void)fd;
	helpers_collect(site->helpers);
}

int site_helpers_init(struct site *site, struct err *err)
{
	struct helpers_mutex *mutex =
	    site->worker ? site->worker->workers->mutex : NULL;

	site->helpers = helpers_new(HELPERS_ASK_THREADS, HELPERS_ASK_QUEUE, mutex, err);
	if (!site->helpers)
		return -1;
	site->external_watch = watch_new(
	    site->loop, helpers_fd(site->helpers), WATCH_READ, helpers_answered, site);
	return 0;
}

void site_helpers_done(struct site *site)
{
	if (site->external_watch)
		watch_free(&site->external_watch);
	if (site->helpers)
		helpers_free(&site->helpers);
}
