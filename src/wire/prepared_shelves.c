/*
 * Values by reading and key.
 */
#include "wire/prepared_shelves.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

struct shelves {
	struct map *by_reading; /* owned: struct shelf */
};

struct shelf {
	struct map *values;      /* owned; never empty between two calls */
	struct shelves *shelves; /* borrowed */
	char reading[];
};

struct shelves *shelves_new(void)
{
	struct shelves *s = mem_zero(sizeof(*s));

	s->by_reading = map_new();
	return s;
}

void shelves_free(struct shelves **sp)
{
	struct shelves *s = *sp;

	if (!s)
		return;
	assert(map_count(s->by_reading) == 0);
	map_free(&s->by_reading);
	mem_free(s);
	*sp = NULL;
}

static struct shelf *add_shelf(struct shelves *s, const char *reading)
{
	size_t size = strlen(reading) + 1;
	struct shelf *shelf = mem_try(sizeof(*shelf) + size);

	if (!shelf)
		return NULL;
	shelf->values = map_new();
	shelf->shelves = s;
	memcpy(shelf->reading, reading, size);
	map_put_str(s->by_reading, shelf->reading, shelf);
	return shelf;
}

static void drop_if_empty(struct shelf *shelf)
{
	if (map_count(shelf->values) > 0)
		return;
	map_del_str(shelf->shelves->by_reading, shelf->reading);
	map_free(&shelf->values);
	mem_free(shelf);
}

void *shelves_get(
    const struct shelves *s, const char *reading, const void *key, size_t len)
{
	const struct shelf *shelf = map_get_str(s->by_reading, reading);

	return shelf ? map_get(shelf->values, key, len) : NULL;
}

void *shelves_get_or_put(struct shelves *s, const char *reading, const void *key,
    size_t len, struct shelf **shelf, map_make_fn *make, void *ctx)
{
	void *value;

	*shelf = map_get_str(s->by_reading, reading);
	if (!*shelf)
		*shelf = add_shelf(s, reading);
	if (!*shelf)
		return NULL;
	value = map_get_or_put((*shelf)->values, key, len, make, ctx);
	drop_if_empty(*shelf);
	return value;
}

void shelf_del(struct shelf *shelf, uint32_t hash, const void *value)
{
	map_del_made(shelf->values, hash, value);
	drop_if_empty(shelf);
}

const char *shelf_reading(const struct shelf *shelf)
{
	return shelf->reading;
}
