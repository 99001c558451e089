/*
 * Clients that are visited in steps, a few per turn: each once, in order, without those
 * that closed meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/client.h"
#include "session/roll.h"

static void goes_on_without_the_dead(void **state)
{
	(void)state;
	enum { COUNT = 200 };
	static struct client clients[COUNT];
	struct site site = {.loop = NULL};
	struct roll roll, other;

	list_init(&site.rolls);
	roll_strike(&site, &clients[0]);
	roll_begin(&roll, &site);
	roll_begin(&other, &site);
	assert_null(roll_next(&roll));
	for (size_t i = 0; i < COUNT; i++)
		roll_add(&roll, &clients[i]);
	roll_add(&other, &clients[5]);
	for (size_t i = 0; i < 100; i++)
		assert_ptr_equal(roll_next(&roll), &clients[i]);
	roll_strike(&site, &clients[5]);
	roll_strike(&site, &clients[100]);
	roll_strike(&site, &clients[199]);
	for (size_t i = 101; i < 199; i++)
		assert_ptr_equal(roll_next(&roll), &clients[i]);
	assert_null(roll_next(&roll));
	assert_null(roll_next(&other));
	roll_end(&roll, &site);
	roll_strike(&site, &clients[1]);
	roll_end(&other, &site);
	assert_true(list_is_empty(&site.rolls));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(goes_on_without_the_dead),
	};

	return cmocka_run_group_tests_name("roll", tests, NULL, NULL);
}
