/*
 * Reports statistics every stats_period to the log and the service manager, and calls
 * the catalog's housekeeping.  The pool floor keeps the counters and knows what is
 * idle.
 */
#include "daemon/ticker.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/notify.h"
#include "daemon/reload.h"
#include "pool/catalog.h"
#include "pool/pool.h"
#include "session/memory_limit.h"
#include "session/workers.h"

/* Housekeeping runs at least this often, as idle limits can be as short as a second. */
enum { TIDY_MOST_US = 3000000 };

void ticker_stats_line(
    const struct stats *average, const char *micro, char out[TICKER_LINE])
{
	snprintf(out, TICKER_LINE,
	    "stats: %" PRIu64 " xacts/s, %" PRIu64 " queries/s, %" PRIu64
	    " client parses/s, %" PRIu64 " server parses/s, %" PRIu64
	    " binds/s, %" PRIu64 " client logins/s, in %" PRIu64 " B/s, out %" PRIu64
	    " B/s, xact %" PRIu64 " %s, query %" PRIu64 " %s, wait %" PRIu64 " %s",
	    average->xact_count, average->query_count, average->client_parse_count,
	    average->server_parse_count, average->bind_count,
	    average->client_login_count, average->bytes_received, average->bytes_sent,
	    average->xact_time_us, micro, average->query_time_us, micro,
	    average->wait_time_us, micro);
}

static void snapshot(struct site *site, void *ctx)
{
	(void)ctx;
	catalog_snapshot_stats(site->catalog, loop_now(site->loop));
	loop_counts_end_period(
	    loop_counts(site->loop), loop_now(site->loop), loop_busy_us(site->loop));
}

/* The sums at the last two snapshots.  Pools that are not in the list `counted` have
 * not changed. */
struct sums {
	struct stats newer, older;
};

static void add_up(struct site *site, void *ctx)
{
	struct sums *sums = ctx;
	const struct pool *pool;

	list_for (pool, &site->catalog->counted, counted_node) {
		stats_add(&sums->newer, &pool->history.newer);
		stats_add(&sums->older, &pool->history.older);
	}
}

static void arm_stats(struct daemon *d)
{
	uint64_t period = (uint64_t)site_settings(&d->site)->stats_period * 1000000;

	deadline_set(d->site.loop, &d->stats_due, loop_now(d->site.loop) + period);
}

static void stats_due(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, stats_due);
	struct site *site = &d->site;
	char line[TICKER_LINE];
	struct stats average;

	(void)workers_each(site, snapshot, NULL);
	const struct catalog *c = site->catalog;
	struct sums sums = {.newer = {0}};
	(void)workers_each(site, add_up, &sums);
	stats_average(
	    &sums.newer, &sums.older, c->snapshot_us - c->older_snapshot_us, &average);
	ticker_stats_line(&average, "us", line);
	log_put(site->log, LEVEL_LOG | KIND_STATS, NULL, "%s", line);
	ticker_stats_line(&average, "\u03bcs", line);
	notify_status(line);
	arm_stats(d);
}

static void note_freed(void *ctx, unsigned level, const char *text)
{
	const struct site *site = ctx;

	log_put(site->log, level | KIND_POOLS, NULL, "%s", text);
}

/* ctx: the earliest time at which a site wants housekeeping again. */
static void tidy_site(struct site *site, void *ctx)
{
	uint64_t *due_us = ctx;
	uint64_t wanted_us =
	    catalog_housekeeping(site->catalog, loop_now(site->loop), note_freed, site);

	if (wanted_us < *due_us)
		*due_us = wanted_us;
}

static void tidy_due(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, tidy_due);
	struct site *site = &d->site;
	uint64_t most = loop_now(site->loop) + TIDY_MOST_US;

	/* tells when it is over, also if nobody wants anything */
	(void)memory_limit_check(site);
	(void)workers_each(site, tidy_site, &most);
	deadline_set(site->loop, due, most);
}

static void tls_due(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, tls_due);
	uint64_t period = site_settings(&d->site)->tls_reload_period;

	reload_changed_tls(d);
	deadline_set(d->site.loop, due, loop_now(d->site.loop) + period);
}

/* Runs twice as often as the manager requires. */
static void watchdog_due(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, watchdog_due);

	notify_alive();
	deadline_set(
	    d->site.loop, due, loop_now(d->site.loop) + notify_watchdog_us() / 2);
}

void ticker_init(struct daemon *d)
{
	deadline_init(&d->watchdog_due, watchdog_due);
	deadline_init(&d->tls_due, tls_due);
	deadline_init(&d->stats_due, stats_due);
	deadline_init(&d->tidy_due, tidy_due);
}

void ticker_start(struct daemon *d)
{
	(void)workers_each(&d->site, snapshot, NULL);
	arm_stats(d);
	deadline_set(d->site.loop, &d->tidy_due, loop_now(d->site.loop) + TIDY_MOST_US);
	if (notify_watchdog_us())
		watchdog_due(&d->watchdog_due);
}

void ticker_stop(struct daemon *d)
{
	deadline_clear(d->site.loop, &d->tls_due);
	deadline_clear(d->site.loop, &d->watchdog_due);
	deadline_clear(d->site.loop, &d->stats_due);
	deadline_clear(d->site.loop, &d->tidy_due);
}
