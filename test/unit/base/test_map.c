/*
 * The map against a plain array with the same entries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/map.h"

enum { ITEMS = 700, EVENTS = 60000 };

struct item {
	char key[16];
	bool in;
	unsigned seen;
};

static void basics(void **state)
{
	struct map *m = map_new();
	int one, two;
	size_t at = 0;

	(void)state;
	assert_int_equal(map_count(m), 0);
	assert_null(map_get_str(m, "x"));
	assert_null(map_del_str(m, "x"));
	assert_null(map_next(m, &at));
	assert_null(map_next(m, &at));
	assert_null(map_put_str(m, "x", &one));
	assert_ptr_equal(map_get_str(m, "x"), &one);
	assert_ptr_equal(map_put_str(m, "x", &two), &one);
	assert_int_equal(map_count(m), 1);
	assert_ptr_equal(map_get(m, "xy", 1), &two);
	assert_null(map_get(m, "xy", 2));
	assert_ptr_equal(map_del_str(m, "x"), &two);
	assert_int_equal(map_count(m), 0);
	map_free(&m);
	assert_null(m);
	map_free(&m);
}

static void keys_are_bytes(void **state)
{
	struct map *m = map_new();
	int values[4];

	(void)state;
	assert_null(map_put(m, "", 0, &values[0]));
	assert_null(map_put(m, "a\0b", 3, &values[1]));
	assert_null(map_put(m, "a\0c", 3, &values[2]));
	assert_null(map_put(m, "a", 1, &values[3]));
	assert_ptr_equal(map_get(m, NULL, 0), &values[0]);
	assert_ptr_equal(map_get(m, "a\0b", 3), &values[1]);
	assert_ptr_equal(map_get(m, "a\0c", 3), &values[2]);
	assert_ptr_equal(map_get_str(m, "a"), &values[3]);
	map_free(&m);
}

static void replacing_takes_the_new_key(void **state)
{
	struct map *m = map_new();
	char *old = strdup("key"), *new = strdup("key");
	int value;

	(void)state;
	map_put_str(m, old, &value);
	map_put_str(m, new, &value);
	free(old);
	assert_ptr_equal(map_get_str(m, "key"), &value);
	map_free(&m);
	free(new);
}

static struct item *new_items(void)
{
	struct item *items = calloc(ITEMS, sizeof(*items));

	assert_non_null(items);
	for (int i = 0; i < ITEMS; i++)
		snprintf(items[i].key, sizeof(items[i].key), "key %d", i);
	return items;
}

static void expect_same(struct map *m, struct item *items)
{
	size_t count = 0, at = 0;
	struct item *item;

	for (int i = 0; i < ITEMS; i++) {
		items[i].seen = 0;
		count += items[i].in;
		assert_ptr_equal(
		    map_get_str(m, items[i].key), items[i].in ? &items[i] : NULL);
	}
	assert_int_equal(map_count(m), count);
	while ((item = map_next(m, &at)))
		item->seen++;
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(items[i].seen, items[i].in);
}

static void random_events(void **state)
{
	struct map *m = map_new();
	struct item *items = new_items();
	unsigned short seed[3] = {1, 2, 3};

	(void)state;
	for (int event = 0; event < EVENTS; event++) {
		/* The map fills up and empties in turns, down to a few entries. */
		bool filling = event / (EVENTS / 6) % 2 == 0;
		struct item *item = &items[nrand48(seed) % ITEMS];
		if ((nrand48(seed) % 8 == 0) != filling) {
			assert_ptr_equal(
			    map_put_str(m, item->key, item), item->in ? item : NULL);
			item->in = true;
		} else {
			assert_ptr_equal(
			    map_del_str(m, item->key), item->in ? item : NULL);
			item->in = false;
		}
		if (event % 1000 == 0)
			expect_same(m, items);
	}
	expect_same(m, items);
	map_free(&m);
	free(items);
}

/* Every entry is visited exactly once, however many are removed on the way. */
static void removal_during_a_walk(void **state)
{
	(void)state;
	for (int keep = 1; keep <= 4; keep++) {
		struct map *m = map_new();
		struct item *items = new_items(), *item;
		size_t at = 0, seen = 0;

		for (int i = 0; i < ITEMS; i++) {
			map_put_str(m, items[i].key, &items[i]);
			items[i].in = true;
		}
		while ((item = map_next(m, &at))) {
			assert_int_equal(item->seen++, 0);
			if (keep == 1 || seen % (size_t)keep) {
				assert_ptr_equal(map_del_str(m, item->key), item);
				item->in = false;
			}
			seen++;
		}
		assert_int_equal(seen, ITEMS);
		expect_same(m, items);
		map_free(&m);
		free(items);
	}
}

static int by_key(const void *a, const void *b)
{
	const struct item *const *x = a, *const *y = b;

	return strcmp((*x)->key, (*y)->key);
}

static void sorted_values(void **state)
{
	struct map *m = map_new();
	struct item *items = new_items();
	size_t count = 1;
	void **values = map_sorted(m, &count, by_key);

	(void)state;
	assert_non_null(values);
	assert_int_equal(count, 0);
	free(values);
	for (int i = 0; i < ITEMS; i++)
		map_put_str(m, items[i].key, &items[i]);
	values = map_sorted(m, &count, by_key);
	assert_int_equal(count, ITEMS);
	for (size_t i = 1; i < count; i++)
		assert_true(by_key(&values[i - 1], &values[i]) < 0);
	free(values);
	map_free(&m);
	free(items);
}

static void *make(void *ctx, uint32_t hash, const void **key)
{
	(void)hash;
	*key = "key";
	return ctx;
}

struct made {
	uint32_t hash;
	char key[12];
};

static void *make_one(void *ctx, uint32_t hash, const void **key)
{
	struct made *made = ctx;

	made->hash = hash;
	*key = made->key;
	return made;
}

/* The keys have changed meanwhile, which shows that removal does not read them. */
static void removal_by_hash(void **state)
{
	enum { COUNT = 500 };
	struct map *m = map_new();
	static struct made all[COUNT];

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		snprintf(all[i].key, sizeof(all[i].key), "%d", i);
		map_get_or_put(m, all[i].key, strlen(all[i].key), make_one, &all[i]);
	}
	for (int i = 0; i < COUNT; i += 2) {
		all[i].key[0] = 'x';
		map_del_made(m, all[i].hash, &all[i]);
	}
	assert_int_equal(map_count(m), COUNT / 2);
	for (int i = 1; i < COUNT; i += 2) {
		assert_ptr_equal(map_get_str(m, all[i].key), &all[i]);
		map_del_made(m, all[i].hash, &all[i]);
		assert_null(map_get_str(m, all[i].key));
	}
	assert_int_equal(map_count(m), 0);
	map_free(&m);
}

static void get_or_put(void **state)
{
	struct map *m = map_new();
	char asked[] = "key", one, two;

	(void)state;
	assert_null(map_get_or_put(m, asked, 3, make, NULL));
	assert_int_equal(map_count(m), 0);
	assert_ptr_equal(map_get_or_put(m, asked, 3, make, &one), &one);
	assert_ptr_equal(map_get_or_put(m, asked, 3, make, &two), &one);
	/* the map uses the key that was made, not the one asked for */
	asked[0] = 'x';
	assert_ptr_equal(map_get_str(m, "key"), &one);
	map_del_str(m, "key");
	map_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(get_or_put),
	    cmocka_unit_test(removal_by_hash),
	    cmocka_unit_test(basics),
	    cmocka_unit_test(keys_are_bytes),
	    cmocka_unit_test(replacing_takes_the_new_key),
	    cmocka_unit_test(random_events),
	    cmocka_unit_test(removal_during_a_walk),
	    cmocka_unit_test(sorted_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
