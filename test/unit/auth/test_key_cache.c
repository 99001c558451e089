/* The cache of salted passwords: what it finds and evicts, and that it wipes keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "auth/key_cache.h"

static const uint8_t salt[] = {1, 2, 3, 4};

static struct scram_due due_of(const char *password)
{
	return (struct scram_due){password, salt, sizeof(salt), 4096};
}

static void put(struct key_cache *d, const char *password, uint8_t value)
{
	const struct scram_due due = due_of(password);
	uint8_t salted[SCRAM_KEY_LEN];

	memset(salted, value, sizeof(salted));
	key_cache_put(d, &due, salted);
}

/* The first byte of the key that is kept for this password, or -1. */
static int find(struct key_cache *d, const char *password)
{
	const struct scram_due due = due_of(password);
	uint8_t salted[SCRAM_KEY_LEN];

	return key_cache_find(d, &due, salted) < 0 ? -1 : salted[0];
}

static void test_every_part_counts(void **state)
{
	static const uint8_t other[] = {1, 2, 3, 5};
	const struct scram_due different[] = {
	    {"pencil ", salt, sizeof(salt), 4096},
	    {"", salt, sizeof(salt), 4096},
	    {"pencil", other, sizeof(other), 4096},
	    {"pencil", salt, sizeof(salt) - 1, 4096},
	    {"pencil", salt, sizeof(salt), 4097},
	};
	struct key_cache *d = key_cache_new(10);
	uint8_t salted[SCRAM_KEY_LEN];

	(void)state;
	assert_int_equal(find(d, "pencil"), -1);
	put(d, "pencil", 7);
	assert_int_equal(find(d, "pencil"), 7);
	for (size_t i = 0; i < sizeof(different) / sizeof(*different); i++)
		assert_int_equal(key_cache_find(d, &different[i], salted), -1);
	assert_int_equal(key_cache_count(d), 1);
	key_cache_free(&d);
	assert_null(d);
	key_cache_free(&d);
}

static void test_the_unused_goes(void **state)
{
	struct key_cache *d = key_cache_new(3);

	(void)state;
	put(d, "a", 1);
	put(d, "b", 2);
	put(d, "c", 3);
	assert_int_equal(find(d, "a"), 1); /* using a makes b the oldest */
	put(d, "d", 4);
	assert_int_equal(key_cache_count(d), 3);
	assert_int_equal(find(d, "b"), -1);
	put(d, "c", 3); /* putting c again counts as a use */
	assert_int_equal(key_cache_count(d), 3);
	put(d, "e", 5);
	assert_int_equal(find(d, "a"), -1);
	assert_int_equal(find(d, "c"), 3);
	assert_int_equal(find(d, "d"), 4);
	assert_int_equal(find(d, "e"), 5);
	key_cache_free(&d);
}

static void test_clear(void **state)
{
	struct key_cache *d = key_cache_new(KEY_CACHE_ENTRIES);
	char password[20];

	(void)state;
	for (int i = 0; i < 2 * KEY_CACHE_ENTRIES; i++) {
		snprintf(password, sizeof(password), "%d", i);
		put(d, password, (uint8_t)i);
	}
	assert_int_equal(key_cache_count(d), KEY_CACHE_ENTRIES);
	assert_int_equal(find(d, "2047"), 255);
	key_cache_clear(d);
	assert_int_equal(key_cache_count(d), 0);
	assert_int_equal(find(d, "2047"), -1);
	put(d, "2047", 8);
	assert_int_equal(find(d, "2047"), 8);
	key_cache_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_part_counts),
	    cmocka_unit_test(test_the_unused_goes),
	    cmocka_unit_test(test_clear),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
