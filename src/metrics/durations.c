/*
 * Histograms of pools, added up by database and user.
 */
#include "metrics/durations.h"

#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "metrics/samples.h"
#include "pool/pool.h"
#include "views/views.h"

struct durations {
	struct list rows;
	struct map *by_key;
};

#define DURATION(kind, name, help) {LATENCY_##kind, name, help},
static const struct duration kinds[] = {METRIC_DURATIONS(DURATION)};

const struct duration *duration_at(size_t i)
{
	return i < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[i] : NULL;
}

struct durations *durations_new(void)
{
	struct durations *d = mem_zero(sizeof(*d));

	list_init(&d->rows);
	d->by_key = map_new();
	return d;
}

bool durations_drop_rows(struct durations *durations, size_t most)
{
	struct node *n;

	for (; most > 0; most--) {
		n = list_pop_front(&durations->rows);
		if (!n)
			return false;
		struct duration_row *row = container_of(n, struct duration_row, node);
		for (int i = 0; i < LATENCY_KINDS; i++)
			histogram_free(&row->histograms[i]);
		mem_free(row->key);
		mem_free(row);
	}
	return true;
}

void durations_free(struct durations **dp)
{
	struct durations *d = *dp;

	if (!d)
		return;
	durations_drop_rows(d, SIZE_MAX);
	map_free(&d->by_key);
	mem_free(d);
	*dp = NULL;
}

static void take_pool(
    struct durations *d, const struct pool *pool, const struct latency *latency)
{
	char label[LABEL_MOST + 1];
	struct duration_row *row;
	struct buf key;

	buf_init(&key, 0);
	samples_take_label(label, pool->database->name);
	buf_put_str(&key, label);
	samples_take_label(label, pool->user->name);
	buf_put_str(&key, label);
	row = map_get(d->by_key, key.bytes, key.len);
	if (!row) {
		row = mem_zero(sizeof(*row));
		row->key = mem_dup(key.bytes, key.len);
		list_push_back(&d->rows, &row->node);
		map_put(d->by_key, row->key, key.len, row);
	}
	latency_sum(latency, row->histograms, NULL);
	buf_done(&key);
}

bool durations_part(struct rows *rows, size_t most)
{
	struct pool *pool;

	for (; most > 0; most--) {
		pool = view_pools_next(rows->site);
		if (!pool)
			return false;
		const struct latency *latency = catalog_durations_of(pool);
		if (latency)
			take_pool(rows->sink_ctx, pool, latency);
	}
	return true;
}

const struct list *durations_rows(const struct durations *durations)
{
	return &durations->rows;
}
