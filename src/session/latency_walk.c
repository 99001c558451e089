/*
 * The histograms of all sites, added up by the names of database and user.
 */
#include "session/latency_walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "pool/pool.h"
#include "session/workers.h"

struct sum {
	struct latency_totals totals;
	size_t key_len;
	char key[]; /* both names, each with its NUL */
};

static void sum_free(struct sum *sum)
{
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		histogram_free(&sum->totals.total[kind]);
		histogram_free(&sum->totals.recent[kind]);
	}
	mem_free(sum);
}

static struct sum *sum_of(struct map *sums, const struct pool *pool)
{
	size_t database_len = strlen(pool->database->name) + 1,
	       user_len = strlen(pool->user->name) + 1;
	struct sum *sum = mem_zero(sizeof(*sum) + database_len + user_len);
	sum->key_len = database_len + user_len;
	memcpy(sum->key, pool->database->name, database_len);
	memcpy(sum->key + database_len, pool->user->name, user_len);
	sum->totals.database = sum->key;
	sum->totals.user = sum->key + database_len;
	struct sum *known = map_get(sums, sum->key, sum->key_len);

	if (known) {
		sum_free(sum);
		return known;
	}
	map_put(sums, sum->key, sum->key_len, sum);
	return sum;
}

static void add_site(struct site *site, void *ctx)
{
	struct pool *pool;

	list_for (pool, &site->catalog->pool_list, node) {
		const struct latency *latency = catalog_durations_of(pool);
		struct sum *sum;
		if (!latency)
			continue;
		sum = sum_of(ctx, pool);
		latency_sum(latency, sum->totals.total, sum->totals.recent);
	}
}

static int compare(const void *a, const void *b)
{
	const struct sum *const *x = a, *const *y = b;
	int result = strcmp((*x)->totals.database, (*y)->totals.database);

	return result ? result : strcmp((*x)->totals.user, (*y)->totals.user);
}

unsigned latency_walk(struct site *site, latency_walk_fn *fn, void *ctx)
{
	struct map *sums = map_new();
	unsigned missed = workers_each(site, add_site, sums);
	struct sum **sorted;
	size_t count;

	sorted = (struct sum **)map_sorted(sums, &count, compare);
	for (size_t i = 0; i < count; i++) {
		fn(ctx, &sorted[i]->totals);
		sum_free(sorted[i]);
	}
	free(sorted);
	map_free(&sums);
	return missed;
}
