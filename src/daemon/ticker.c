/*
 * Statistics of every stats_period, for log and service manager, and housekeeping of
 * the catalog.  Counters and what is idle are the pool floor's.
 */
#include "daemon/ticker.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/notify.h"
#include "daemon/reload.h"
#include "pool/catalog.h"
#include "pool/pool.h"

/* Housekeeping looks this often at least, as limits can be as short as a second. */
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

/* Over the period between the last two snapshots.  What is not in the list has not
 * moved. */
static void average_all(const struct catalog *c, struct stats *average)
{
	struct stats newer = {0}, older = {0};
	const struct pool *pool;

	list_for (pool, &c->counted, counted_node) {
		stats_add(&newer, &pool->history.newer);
		stats_add(&older, &pool->history.older);
	}
	stats_average(&newer, &older, c->snapshot_us - c->older_snapshot_us, average);
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

	catalog_snapshot_stats(site->catalog, loop_now(site->loop));
	loop_counts_end_period(loop_counts(site->loop));
	average_all(site->catalog, &average);
	if (site_settings(site)->log_stats) {
		ticker_stats_line(&average, "us", line);
		log_info(site->log, "%s", line);
	}
	ticker_stats_line(&average, "\u03bcs", line);
	notify_status(line);
	arm_stats(d);
}

static void note_freed(void *ctx, const char *text)
{
	struct daemon *d = ctx;

	log_info(d->site.log, "%s", text);
}

static void tidy_due(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, tidy_due);
	struct site *site = &d->site;
	uint64_t now = loop_now(site->loop);
	uint64_t wanted = catalog_housekeeping(site->catalog, now, note_freed, d);
	uint64_t most = now + TIDY_MOST_US;

	deadline_set(site->loop, due, wanted < most ? wanted : most);
}

static void tls_due(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, tls_due);
	uint64_t period = site_settings(&d->site)->tls_reload_period;

	reload_changed_tls(d);
	deadline_set(d->site.loop, due, loop_now(d->site.loop) + period);
}

/* Twice as often as the manager wants to hear it. */
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
	catalog_snapshot_stats(d->site.catalog, loop_now(d->site.loop));
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
