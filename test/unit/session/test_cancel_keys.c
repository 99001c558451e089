/* Clients by their cancel keys, compared with a plain list of who was added, and with
 * several threads that add, move, search and remove at the same time. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "session/cancel_keys.h"

enum { KEYS = 3000, LONG_EVERY = 3, PLACE = 5, THREADS = 4, ROUNDS = 200 };

/* The bytes of a key with this number: those of neighbours differ in one bit. */
static size_t bytes_of(uint32_t number, uint8_t bytes[CANCEL_KEY_LONG])
{
	size_t len = number % LONG_EVERY ? CANCEL_KEY_LEN : CANCEL_KEY_LONG;

	memset(bytes, 0, CANCEL_KEY_LONG);
	memcpy(bytes + len - 4, &number, 4);
	return len;
}

static void give(struct cancel_key *key, uint32_t number)
{
	uint8_t bytes[CANCEL_KEY_LONG];
	size_t len = bytes_of(number, bytes);

	cancel_key_set(key, bytes, len);
}

static struct cancel_key *look_up(
    struct cancel_keys *keys, uint32_t number, unsigned place, unsigned *next)
{
	uint8_t bytes[CANCEL_KEY_LONG];
	size_t len = bytes_of(number, bytes);

	return cancel_keys_find(keys, bytes, len, place, next);
}

/* ---- one thread ---- */

struct crowd {
	struct cancel_keys *keys;
	struct cancel_key list[KEYS];
	size_t count;
};

static int set_up(void **state)
{
	struct crowd *c = mem_zero(sizeof(*c));

	c->keys = cancel_keys_new();
	*state = c;
	return 0;
}

static int tear_down(void **state)
{
	struct crowd *c = *state;

	for (size_t i = 0; i < KEYS; i++)
		cancel_keys_remove(c->keys, &c->list[i]);
	assert_int_equal(cancel_keys_count(c->keys), 0);
	cancel_keys_free(&c->keys);
	assert_null(c->keys);
	mem_free(c);
	return 0;
}

static void check(const struct crowd *c)
{
	unsigned next;

	assert_int_equal(cancel_keys_count(c->keys), c->count);
	for (uint32_t i = 0; i < KEYS; i++) {
		const struct cancel_key *key = look_up(c->keys, i, PLACE, &next);
		assert_ptr_equal(key, c->list[i].len ? &c->list[i] : NULL);
		assert_int_equal(next, key ? PLACE : CANCEL_NOWHERE);
	}
}

static void change(struct crowd *c, size_t i)
{
	struct cancel_key *key = &c->list[i];

	if (key->len) {
		cancel_keys_remove(c->keys, key);
		c->count--;
	} else {
		give(key, (uint32_t)i);
		assert_int_equal(cancel_keys_add(c->keys, key, PLACE), 0);
		c->count++;
	}
}

/* It grows and shrinks, and finds everybody at every size. */
static void comes_and_goes(void **state)
{
	struct crowd *c = *state;

	check(c);
	for (size_t i = 0; i < KEYS; i++) {
		change(c, i);
		if (i < 80 || i % 500 == 0)
			check(c);
	}
	for (size_t i = 0; i < KEYS; i++) {
		change(c, (i * 7) % KEYS);
		if (i % 500 == 0 || i > KEYS - 80)
			check(c);
	}
	assert_int_equal(c->count, 0);
}

static void in_any_order(void **state)
{
	struct crowd *c = *state;
	uint64_t number = 1;

	for (size_t i = 0; i < 40000; i++) {
		number = number * UINT64_C(6364136223846793005) + 1442695040888963407;
		change(c, (number >> 33) % KEYS);
		if (i % 2000 == 0)
			check(c);
	}
	check(c);
}

/* A key that is part of another one is another key. */
static void other_length(void **state)
{
	struct crowd *c = *state;
	uint8_t bytes[CANCEL_KEY_LONG];
	unsigned next;

	change(c, 1);
	(void)bytes_of(1, bytes);
	assert_ptr_equal(cancel_keys_find(c->keys, bytes, CANCEL_KEY_LEN, PLACE, &next),
	    &c->list[1]);
	assert_null(cancel_keys_find(c->keys, bytes, CANCEL_KEY_LEN - 1, PLACE, &next));
	assert_null(cancel_keys_find(c->keys, bytes, CANCEL_KEY_LONG, PLACE, &next));
}

/* Nobody gets a key that another client has. */
static void twice(void **state)
{
	struct crowd *c = *state;
	struct cancel_key same = {.len = 0};

	change(c, 2);
	change(c, 3);
	for (uint32_t i = 2; i <= 3; i++) {
		give(&same, i);
		assert_int_equal(cancel_keys_add(c->keys, &same, PLACE), -1);
		cancel_key_done(&same);
	}
	check(c);
}

/* Others are sent to who knows where the client is, and that one to where it goes. */
static void on_the_way(void **state)
{
	struct crowd *c = *state;
	unsigned next;

	change(c, 3);
	assert_null(look_up(c->keys, 3, 1, &next));
	assert_int_equal(next, PLACE);
	cancel_keys_send(c->keys, &c->list[3], 1);
	for (unsigned place = 0; place < 7; place++) {
		assert_null(look_up(c->keys, 3, place, &next));
		assert_int_equal(next, place == PLACE ? 1 : PLACE);
	}
	cancel_keys_settle(c->keys, &c->list[3]);
	assert_ptr_equal(look_up(c->keys, 3, 1, &next), &c->list[3]);
	assert_null(look_up(c->keys, 3, PLACE, &next));
	assert_int_equal(next, 1);
}

/* ---- several threads ---- */

struct race {
	struct cancel_keys *keys;
	atomic_uint next_thread;
};

/* Each thread has every fourth number.  Another one's key is there or not, but never
 * taken for one of this place. */
static void *race(void *arg)
{
	struct race *r = arg;
	unsigned own = atomic_fetch_add(&r->next_thread, 1), next;
	struct cancel_key *list = mem_zero(KEYS * sizeof(*list));

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned most = round % 3 ? KEYS / 20 : KEYS / 4;
		for (uint32_t i = own; i < most; i += THREADS) {
			give(&list[i], i);
			assert_int_equal(cancel_keys_add(r->keys, &list[i], own), 0);
			assert_null(look_up(r->keys, i ^ 1, own, &next));
			assert_true(next == CANCEL_NOWHERE || next == (own ^ 1));
		}
		for (uint32_t i = own; i < most; i += THREADS) {
			cancel_keys_send(r->keys, &list[i], own);
			cancel_keys_settle(r->keys, &list[i]);
			assert_ptr_equal(look_up(r->keys, i, own, &next), &list[i]);
			cancel_keys_remove(r->keys, &list[i]);
		}
	}
	mem_free(list);
	return NULL;
}

static void threads(void **state)
{
	(void)state;
	struct race r = {.keys = cancel_keys_new()};
	pthread_t list[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&list[i], NULL, race, &r), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(list[i], NULL);
	assert_int_equal(cancel_keys_count(r.keys), 0);
	cancel_keys_free(&r.keys);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(comes_and_goes, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(in_any_order, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(other_length, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(twice, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(on_the_way, set_up, tear_down),
	    cmocka_unit_test(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
