/*
 * The store of prepared texts, and registries of several threads that share it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/prepared.h"

static const struct stored_text *take(
    struct prepared_store *store, const char *reading, const char *sql)
{
	return prepared_store_take(
	    store, reading, (const uint8_t *)sql, strlen(sql) + 1);
}

static const struct stored_text *restore(
    struct prepared_store *store, uint64_t id, const char *reading, const char *sql)
{
	return prepared_store_restore(
	    store, id, reading, (const uint8_t *)sql, strlen(sql) + 1);
}

static void equal_texts_are_one(void **state)
{
	struct prepared_store *store = prepared_store_new("S_");
	const struct stored_text *a = take(store, "here", "a");
	const struct stored_text *again = take(store, "here", "a");
	const struct stored_text *there = take(store, "there", "a");
	const struct stored_text *alone = take(store, NULL, "a");

	(void)state;
	assert_ptr_equal(a, again);
	assert_ptr_not_equal(a, there);
	assert_ptr_not_equal(a, alone);
	assert_string_equal(a->name, "S_1");
	assert_string_equal((const char *)a->key, "a");
	assert_int_equal(alone->id, 3);
	prepared_store_give(a);
	/* the other taker still has it */
	assert_string_equal((const char *)again->key, "a");
	prepared_store_give(again);
	prepared_store_give(there);
	prepared_store_give(alone);
	/* an id is not used again */
	a = take(store, "here", "a");
	assert_int_equal(a->id, 4);
	assert_int_equal(prepared_store_last(store), 4);
	prepared_store_give(a);
	prepared_store_unref(&store);
}

static void a_text_keeps_its_id(void **state)
{
	struct prepared_store *store = prepared_store_new("S_");
	const struct stored_text *theirs = restore(store, 70, "here", "a");
	const struct stored_text *same = take(store, "here", "a");
	const struct stored_text *again = restore(store, 70, "here", "a");
	const struct stored_text *second = restore(store, 71, "here", "a");

	(void)state;
	assert_string_equal(theirs->name, "S_70");
	assert_ptr_equal(same, theirs);
	assert_ptr_equal(again, theirs);
	/* the same bytes under another id: only its taker has it */
	assert_string_equal(second->name, "S_71");
	assert_null(second->context);
	prepared_store_skip(store, 100);
	prepared_store_skip(store, 50);
	assert_int_equal(prepared_store_last(store), 100);
	prepared_store_give(theirs);
	prepared_store_give(same);
	prepared_store_give(again);
	/* nor is there a second one with this id when the first is gone */
	assert_ptr_equal(restore(store, 71, "here", "a"), second);
	assert_null(restore(store, 71, "here", "b"));
	prepared_store_give(second);
	prepared_store_give(second);
	prepared_store_unref(&store);
}

/* A server that goes to another thread has its statements under the names that the
 * clients there use as well. */
static void registries_agree_about_names(void **state)
{
	struct prepared_store *store = prepared_store_new("S_");
	struct prepared_registry *here =
	    prepared_registry_new(prepared_store_ref(store));
	struct prepared_registry *there = prepared_registry_new(store);
	const uint8_t *key = (const uint8_t *)"a";
	struct prepared_text *ours = prepared_intern(here, "r", key, 2);
	struct prepared_text *theirs = prepared_intern(there, "r", key, 2);
	struct prepared_text *moved =
	    prepared_restore(there, ours->stored->id, "r", key, 2);

	(void)state;
	assert_ptr_not_equal(ours, theirs);
	assert_ptr_equal(ours->stored, theirs->stored);
	assert_ptr_equal(moved, theirs);
	assert_int_equal(ours->refs, 1);
	prepared_unref(ours);
	prepared_registry_free(&here);
	assert_string_equal(prepared_sql(theirs), "a");
	prepared_unref(theirs);
	prepared_unref(moved);
	prepared_registry_free(&there);
}

/* From another process come two ids for the same bytes, one after the other and to two
 * threads; then a server goes from one to the other. */
static void an_id_has_one_text_at_all_threads(void **state)
{
	struct prepared_store *store = prepared_store_new("S_");
	struct prepared_registry *here =
	    prepared_registry_new(prepared_store_ref(store));
	struct prepared_registry *there = prepared_registry_new(store);
	const uint8_t *key = (const uint8_t *)"a";
	struct prepared_text *first = prepared_restore(here, 70, "r", key, 2);
	struct prepared_text *second = prepared_restore(here, 71, "r", key, 2);

	(void)state;
	prepared_unref(first);
	struct prepared_text *moved = prepared_restore(there, 71, "r", key, 2);
	struct prepared_text *packed = prepared_pack(moved);
	assert_ptr_equal(moved->stored, second->stored);
	prepared_unref(moved);
	moved = prepared_intern(here, "r", key, 2);
	assert_ptr_not_equal(moved, second);
	prepared_unref(moved);
	moved = prepared_unpack(here, packed);
	assert_ptr_equal(moved, second);
	prepared_unref(moved);
	prepared_unref(second);
	prepared_registry_free(&here);
	prepared_registry_free(&there);
}

/* ---- several threads ---- */

enum { THREADS = 4, ROUNDS = 3000, KINDS = 7 };

static struct prepared_store *common;

static void *use(void *arg)
{
	struct prepared_registry *r = prepared_registry_new(prepared_store_ref(common));
	unsigned seed = *(unsigned *)arg;
	struct prepared_text *held[KINDS] = {NULL};

	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned kind = (i * 31 + seed * 17 + i / 7) % KINDS;
		char sql[8];
		snprintf(sql, sizeof(sql), "%u", kind);
		if (held[kind]) {
			assert_string_equal(prepared_sql(held[kind]), sql);
			prepared_unref(held[kind]);
			held[kind] = NULL;
			continue;
		}
		held[kind] =
		    prepared_intern(r, kind % 2 ? "odd" : "even", (uint8_t *)sql, 2);
	}
	for (unsigned i = 0; i < KINDS; i++)
		prepared_unref(held[i]);
	prepared_registry_free(&r);
	return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
	pthread_t threads[THREADS];
	unsigned seeds[THREADS];

	(void)state;
	common = prepared_store_new("S_");
	for (unsigned i = 0; i < THREADS; i++) {
		seeds[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, use, &seeds[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	prepared_store_unref(&common);
}

static void each_database_has_a_generation(void **state)
{
	struct prepared_store *store = prepared_store_new("S_");
	struct prepared_registry *r = prepared_registry_new(prepared_store_ref(store));
	atomic_uint *a = prepared_store_generation(store, "a");

	(void)state;
	assert_int_equal(atomic_load(a), PREPARED_GENERATION);
	atomic_fetch_add(a, 2);
	assert_ptr_equal(prepared_registry_generation(r, "a"), a);
	assert_int_equal(
	    atomic_load(prepared_store_generation(store, "b")), PREPARED_GENERATION);
	assert_non_null(prepared_store_generation(store, ""));
	prepared_registry_free(&r);
	prepared_store_unref(&store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equal_texts_are_one),
	    cmocka_unit_test(a_text_keeps_its_id),
	    cmocka_unit_test(registries_agree_about_names),
	    cmocka_unit_test(an_id_has_one_text_at_all_threads),
	    cmocka_unit_test(threads_do_not_disturb_each_other),
	    cmocka_unit_test(each_database_has_a_generation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
