/*
 * Looks each second at the sums of all sites, and keeps them in a ring.
 */
#include "metrics/history.h"

#include <inttypes.h>
#include <string.h>

#include "base/errors.h"
#include "base/mem.h"
#include "pool/pool.h"
#include "session/workers.h"
#include "views/views.h"

enum { POINTS = 600, PERIOD_US = 1000000 };

struct point {
	uint64_t time_s, xact_count, query_count, wait_us, errors;
	size_t waiting;
};

struct history {
	struct site *site;
	struct deadline due;
	size_t count; /* of all points so far */
	struct point points[POINTS];
};

/* ---- one point ---- */

struct look {
	struct point *point;
	uint64_t *figure; /* what the next number belongs to; NULL: nothing */
};

static void take_name(void *ctx, const char *text)
{
	struct look *look = ctx;

	look->figure = NULL;
	if (strcmp(text, "total_xact_count") == 0)
		look->figure = &look->point->xact_count;
	else if (strcmp(text, "total_query_count") == 0)
		look->figure = &look->point->query_count;
	else if (strcmp(text, "total_wait_time") == 0)
		look->figure = &look->point->wait_us;
}

static void take_number(void *ctx, long long number)
{
	struct look *look = ctx;

	if (look->figure)
		*look->figure = (uint64_t)number;
}

static void take_end(void *ctx)
{
	(void)ctx;
}

static const struct row_sink totals_sink = {take_name, take_number, take_end};

static void add_site(struct site *site, void *ctx)
{
	struct point *point = ctx;
	const struct pool *pool;

	for (size_t i = 0; i < ERROR_COUNT + 1; i++)
		point->errors += site->errors_told[i];
	list_for (pool, &site->catalog->pool_list, node)
		point->waiting += pool->waiting.count;
}

static void take_point(struct deadline *due)
{
	struct history *h = container_of(due, struct history, due);
	struct point point = {.time_s = loop_wall(h->site->loop) / 1000000};
	struct look look = {.point = &point};
	struct rows rows;

	deadline_set(h->site->loop, due, loop_now(h->site->loop) + PERIOD_US);
	/* without the figures of a worker that does not answer, sums would go down */
	if (workers_each(h->site, add_site, &point) > 0)
		return;
	rows_init_sink(&rows, h->site, &totals_sink, &look);
	view_totals(&rows);
	h->points[h->count++ % POINTS] = point;
}

void history_put(const struct history *h, struct buf *out)
{
	size_t i = h->count > POINTS ? h->count - POINTS : 0;

	buf_put_text(out,
	    "{\"columns\":[\"time\",\"total_xact_count\",\"total_query_count\","
	    "\"total_wait_time\",\"errors\",\"cl_waiting\"],\"rows\":[");
	for (const char *comma = ""; i < h->count; i++, comma = ",") {
		const struct point *p = &h->points[i % POINTS];
		buf_printf(out,
		    "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
		    ",%zu]",
		    comma, p->time_s, p->xact_count, p->query_count, p->wait_us,
		    p->errors, p->waiting);
	}
	buf_put_text(out, "]}\n");
}

struct history *history_new(struct site *site)
{
	struct history *h = mem_zero(sizeof(*h));

	h->site = site;
	deadline_init(&h->due, take_point);
	take_point(&h->due);
	return h;
}

void history_free(struct history **hp)
{
	if (!*hp)
		return;
	deadline_clear((*hp)->site->loop, &(*hp)->due);
	mem_free(*hp);
	*hp = NULL;
}
