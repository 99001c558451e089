/*
 * Views of counters, per database and over all databases, which are added up when they
 * are read.
 */
#include <stdlib.h>
#include <string.h>

#include "admin/views.def"
#include "admin/views.h"
#include "pool/pool.h"
#include "pool/stats.h"

/* The pools of one database, or of all, together. */
struct stats_sum {
	const struct database *database;
	struct stats total, before, average;
};

static void sum_pool(
    struct stats_sum *sum, const struct catalog *catalog, const struct pool *pool)
{
	stats_add(&sum->total, &pool->stats);
	/* Until there are two snapshots, the first one is used. */
	stats_add(&sum->before,
	    catalog->older_snapshot_us ? &pool->history.older : &pool->history.newer);
}

static void sum_average(struct stats_sum *sum, const struct rows *rows)
{
	const struct catalog *catalog = rows->site->catalog;
	uint64_t since_us = catalog->older_snapshot_us ? catalog->older_snapshot_us
						       : catalog->snapshot_us;

	if (since_us && rows->now_us > since_us)
		stats_average(
		    &sum->total, &sum->before, rows->now_us - since_us, &sum->average);
}

typedef void put_sum_fn(struct rows *rows, const struct stats_sum *sum);

/* Pools come sorted by database, so those of one stand together. */
static void walk_databases(struct rows *rows, put_sum_fn *put)
{
	const struct catalog *catalog = rows->site->catalog;
	struct stats_sum sum;
	size_t count, i = 0;
	struct pool **pools = catalog_sorted_pools(catalog, &count);

	while (i < count) {
		memset(&sum, 0, sizeof(sum));
		sum.database = pools[i]->database;
		for (; i < count && pools[i]->database == sum.database; i++)
			sum_pool(&sum, catalog, pools[i]);
		sum_average(&sum, rows);
		put(rows, &sum);
	}
	free(pools);
}

static void put_stats(struct rows *rows, const struct stats_sum *sum)
{
	row_begin(rows);
	STATS_COLUMNS(CELL)
	row_end(rows);
}

static void put_totals(struct rows *rows, const struct stats_sum *sum)
{
	row_begin(rows);
	STATS_TOTALS_COLUMNS(CELL)
	row_end(rows);
}

static void put_averages(struct rows *rows, const struct stats_sum *sum)
{
	row_begin(rows);
	STATS_AVERAGES_COLUMNS(CELL)
	row_end(rows);
}

void view_stats(struct rows *rows)
{
	walk_databases(rows, put_stats);
}

void view_stats_totals(struct rows *rows)
{
	walk_databases(rows, put_totals);
}

void view_stats_averages(struct rows *rows)
{
	walk_databases(rows, put_averages);
}

static void put_figure(struct rows *rows, const char *name, uint64_t value)
{
	row_begin(rows);
	TOTALS_COLUMNS(CELL)
	row_end(rows);
}

#define PUT_FIGURE(                                                                    \
    figures, member, total_name, average_name, in_totals, in_averages, row, what, per) \
	put_figure(rows, FIGURE_PREFIX #row, (figures)->member);

void view_totals(struct rows *rows)
{
	const struct catalog *catalog = rows->site->catalog;
	const struct pool *pool;
	struct stats_sum sum = {.database = NULL};

	list_for (pool, &catalog->pool_list, node)
		sum_pool(&sum, catalog, pool);
	sum_average(&sum, rows);
#define FIGURE_PREFIX "total_"
	FIGURES(PUT_FIGURE, &sum.total)
#undef FIGURE_PREFIX
#define FIGURE_PREFIX "avg_"
	FIGURES(PUT_FIGURE, &sum.average)
#undef FIGURE_PREFIX
}
