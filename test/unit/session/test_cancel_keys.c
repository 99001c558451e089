/* Clients by their cancel keys, compared with a plain list of who was added. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "session/cancel_keys.h"
#include "session/client.h"

enum { CLIENTS = 3000, LONG_EVERY = 3 };

struct crowd {
	struct cancel_keys *keys;
	struct client *clients;
	bool is_in[CLIENTS];
	size_t count;
};

/* Keys of neighbours differ in one bit. */
static void give_key(struct client *client, uint32_t number)
{
	client->has_long_key = number % LONG_EVERY == 0;
	if (client->has_long_key) {
		client->long_key = mem_zero(CANCEL_KEY_LONG);
		memcpy(client->long_key + CANCEL_KEY_LONG - 4, &number, 4);
	} else {
		memcpy(client->cancel_key + 4, &number, 4);
	}
}

static int set_up(void **state)
{
	struct crowd *c = mem_zero(sizeof(*c));

	c->keys = cancel_keys_new();
	c->clients = mem_zero(CLIENTS * sizeof(*c->clients));
	for (uint32_t i = 0; i < CLIENTS; i++)
		give_key(&c->clients[i], i);
	*state = c;
	return 0;
}

static int tear_down(void **state)
{
	struct crowd *c = *state;

	cancel_keys_free(&c->keys);
	assert_null(c->keys);
	for (size_t i = 0; i < CLIENTS; i++)
		if (c->clients[i].has_long_key)
			mem_free(c->clients[i].long_key);
	mem_free(c->clients);
	mem_free(c);
	return 0;
}

static struct client *find(const struct crowd *c, size_t i)
{
	size_t len;
	const uint8_t *key = client_cancel_key(&c->clients[i], &len);

	return cancel_keys_find(c->keys, key, len);
}

static void check(const struct crowd *c)
{
	assert_int_equal(cancel_keys_count(c->keys), c->count);
	for (size_t i = 0; i < CLIENTS; i++)
		assert_ptr_equal(find(c, i), c->is_in[i] ? &c->clients[i] : NULL);
}

static void change(struct crowd *c, size_t i)
{
	if (c->is_in[i])
		cancel_keys_remove(c->keys, &c->clients[i]);
	else
		cancel_keys_add(c->keys, &c->clients[i]);
	c->is_in[i] = !c->is_in[i];
	c->count += c->is_in[i] ? 1 : (size_t)-1;
}

/* It grows and shrinks, and finds everybody at every size. */
static void comes_and_goes(void **state)
{
	struct crowd *c = *state;

	check(c);
	for (size_t i = 0; i < CLIENTS; i++) {
		change(c, i);
		if (i < 40 || i % 500 == 0)
			check(c);
	}
	for (size_t i = 0; i < CLIENTS; i++) {
		change(c, (i * 7) % CLIENTS);
		if (i % 500 == 0 || i > CLIENTS - 40)
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
		change(c, (number >> 33) % CLIENTS);
		if (i % 2000 == 0)
			check(c);
	}
	check(c);
}

/* A key that is part of another one is another key. */
static void other_length(void **state)
{
	struct crowd *c = *state;
	uint8_t key[CANCEL_KEY_LONG] = {0};

	change(c, 1);
	memcpy(key, c->clients[1].cancel_key, CANCEL_KEY_LEN);
	assert_ptr_equal(
	    cancel_keys_find(c->keys, key, CANCEL_KEY_LEN), &c->clients[1]);
	assert_null(cancel_keys_find(c->keys, key, CANCEL_KEY_LEN - 1));
	assert_null(cancel_keys_find(c->keys, key, CANCEL_KEY_LONG));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(comes_and_goes, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(in_any_order, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(other_length, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
