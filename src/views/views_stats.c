/*
 * Views of counters and latencies, per database and in total; they are added up when
 * they are read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "pool/kept.h"
#include "pool/pool.h"
#include "pool/stats.h"
#include "session/workers.h"
#include "views/views.def"
#include "views/views.h"

/* The sum over the pools of one database, or of all databases. */
struct stats_sum {
	const char *name; /* the key; owned by the map of sums */
	struct stats total, average;
	struct stats_history history;
};

/* The sums of all sites, by name. */
struct stats_sums {
	struct map *by_name; /* NULL: everything is added to `all` */
	struct stats_sum all;
};

static void sum_average(struct stats_sum *sum, const struct rows *rows)
{
	const struct catalog *catalog = rows->site->catalog;
	bool has_two = catalog->older_snapshot_us != 0;
	uint64_t since_us = has_two ? catalog->older_snapshot_us : catalog->snapshot_us;

	/* before there are two snapshots, the newer one is used */
	if (since_us && rows->now_us > since_us)
		stats_average(&sum->total,
		    has_two ? &sum->history.older : &sum->history.newer,
		    rows->now_us - since_us, &sum->average);
}

typedef void put_sum_fn(struct rows *rows, const struct stats_sum *sum);

static struct stats_sum *sum_of(struct stats_sums *sums, const char *name)
{
	struct stats_sum *sum;

	if (!sums->by_name)
		return &sums->all;
	sum = map_get_str(sums->by_name, name);
	if (!sum) {
		sum = mem_zero(sizeof(*sum));
		sum->name = mem_strdup(name);
		map_put_str(sums->by_name, sum->name, sum);
	}
	return sum;
}

static void add_part(struct stats_sum *sum, const struct stats *total,
    const struct stats_history *history)
{
	stats_add(&sum->total, total);
	stats_add(&sum->history.newer, &history->newer);
	stats_add(&sum->history.older, &history->older);
}

static void add_site(struct site *site, void *ctx)
{
	struct stats_sums *sums = ctx;
	struct catalog *catalog = site->catalog;
	struct kept *gone = catalog->gone;
	struct database *db;

	list_for (db, &catalog->database_list, node) {
		struct stats_sum part = {0};
		if (catalog_count_database(db, &part.total, &part.history) >= 0)
			add_part(sum_of(sums, db->name), &part.total, &part.history);
	}
	/* sums over all databases do not shrink when one goes */
	if (!gone || sums->by_name)
		return;
	kept_follow(gone, catalog->snapshot_count);
	add_part(&sums->all, &gone->stats, &gone->history);
}

static int compare_names(const void *a, const void *b)
{
	const struct stats_sum *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static void walk_databases(struct rows *rows, put_sum_fn *put)
{
	struct stats_sums sums = {.by_name = map_new()};
	struct stats_sum **sorted;
	size_t count;

	rows->missed = workers_each(rows->site, add_site, &sums);
	sorted = (struct stats_sum **)map_sorted(sums.by_name, &count, compare_names);
	for (size_t i = 0; i < count; i++) {
		sum_average(sorted[i], rows);
		put(rows, sorted[i]);
		mem_free((char *)(uintptr_t)sorted[i]->name);
		mem_free(sorted[i]);
	}
	free(sorted);
	map_free(&sums.by_name);
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

bool view_stats_totals_part(struct rows *rows, size_t most)
{
	struct database *db;
	size_t done = 0;

	while (done < most && (db = view_databases_next(rows->site))) {
		struct stats_sum sum = {.name = db->name};
		int pools = catalog_count_database(db, &sum.total, NULL);
		if (pools >= 0)
			put_totals(rows, &sum);
		done += 1 + (size_t)(pools > 0 ? pools : 0);
	}
	return done >= most;
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
	struct stats_sums sums = {.by_name = NULL};
	struct stats_sum *sum = &sums.all;

	rows->missed = workers_each(rows->site, add_site, &sums);
	sum_average(sum, rows);
#define FIGURE_PREFIX "total_"
	FIGURES(PUT_FIGURE, &sum->total)
#undef FIGURE_PREFIX
#define FIGURE_PREFIX "avg_"
	FIGURES(PUT_FIGURE, &sum->average)
#undef FIGURE_PREFIX
#define FIGURE_PREFIX "total_"
	MORE_FIGURES(PUT_FIGURE, &sum->total)
#undef FIGURE_PREFIX
#define FIGURE_PREFIX "avg_"
	MORE_FIGURES(PUT_FIGURE, &sum->average)
#undef FIGURE_PREFIX
}

/* ---- SHOW LATENCY ---- */

/* The histograms of one database and user, of the pools of all sites together. */
struct durations {
	const char *database, *user;
	/* NULL where nothing was counted; recent: see pool/latency.h */
	struct histogram *total[LATENCY_KINDS], *recent[LATENCY_KINDS];
	size_t key_len;
	char key[]; /* both names, each with its NUL */
};

static void durations_free(struct durations *sum)
{
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		histogram_free(&sum->total[kind]);
		histogram_free(&sum->recent[kind]);
	}
	mem_free(sum);
}

static struct durations *durations_of(struct map *sums, const struct pool *pool)
{
	size_t database_len = strlen(pool->database->name) + 1,
	       user_len = strlen(pool->user->name) + 1;
	struct durations *sum = mem_zero(sizeof(*sum) + database_len + user_len);
	sum->key_len = database_len + user_len;
	memcpy(sum->key, pool->database->name, database_len);
	memcpy(sum->key + database_len, pool->user->name, user_len);
	sum->database = sum->key;
	sum->user = sum->key + database_len;
	struct durations *known = map_get(sums, sum->key, sum->key_len);

	if (known) {
		durations_free(sum);
		return known;
	}
	map_put(sums, sum->key, sum->key_len, sum);
	return sum;
}

static void add_durations(struct site *site, void *ctx)
{
	struct pool *pool;

	list_for (pool, &site->catalog->pool_list, node) {
		const struct latency *latency = catalog_durations_of(pool);
		struct durations *sum;
		if (!latency)
			continue;
		sum = durations_of(ctx, pool);
		latency_sum(latency, sum->total, sum->recent);
	}
}

static int compare_durations(const void *a, const void *b)
{
	const struct durations *const *x = a, *const *y = b;
	int result = strcmp((*x)->database, (*y)->database);

	return result ? result : strcmp((*x)->user, (*y)->user);
}

static void put_kind(
    struct rows *rows, const struct durations *sum, enum latency_kind kind)
{
	const char *database = sum->database, *user = sum->user;
	const struct histogram *total = sum->total[kind], *recent = sum->recent[kind];

	row_begin(rows);
	LATENCY_COLUMNS(CELL)
	row_end(rows);
}

static void put_latency(
    struct rows *rows, const struct durations *sum, struct durations *all)
{
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		if (!sum->total[kind])
			continue;
		put_kind(rows, sum, (enum latency_kind)kind);
		histogram_merge(&all->total[kind], sum->total[kind]);
		histogram_merge(&all->recent[kind], sum->recent[kind]);
	}
}

void view_latency(struct rows *rows)
{
	struct durations *all = mem_zero(sizeof(*all));
	struct map *sums = map_new();
	struct durations **sorted;
	size_t count;

	rows->missed = workers_each(rows->site, add_durations, sums);
	sorted = (struct durations **)map_sorted(sums, &count, compare_durations);
	for (size_t i = 0; i < count; i++) {
		put_latency(rows, sorted[i], all);
		durations_free(sorted[i]);
	}
	free(sorted);
	map_free(&sums);
	for (int kind = 0; kind < LATENCY_KINDS; kind++)
		put_kind(rows, all, (enum latency_kind)kind);
	durations_free(all);
}
