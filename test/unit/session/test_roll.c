/*
 * Clients that are visited in steps, a few per turn: each once, in order, without those
 * that closed meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
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

static void *keep_number(struct roll *roll, const struct client *client)
{
	size_t *kept = mem_alloc(sizeof(*kept));

	(void)roll;
	*kept = (size_t)client->conn.id;
	return kept;
}

/* In its old place, and only by rolls that want it. */
static void keeps_something_of_those_who_go(void **state)
{
	(void)state;
	enum { COUNT = 100 };
	static struct client clients[COUNT];
	struct site site = {.loop = NULL};
	struct roll keeper, other;
	const void *kept;

	list_init(&site.rolls);
	roll_begin(&keeper, &site);
	keeper.keep = keep_number;
	roll_begin(&other, &site);
	for (size_t i = 0; i < COUNT; i++) {
		clients[i].conn.id = i;
		roll_add(&keeper, &clients[i]);
		roll_add(&other, &clients[i]);
	}
	assert_ptr_equal(roll_next_or_kept(&keeper, &kept), &clients[0]);
	assert_null(kept);
	roll_leave(&site, &clients[0]); /* was visited */
	roll_strike(&site, &clients[1]);
	roll_leave(&site, &clients[2]);
	roll_leave(&site, &clients[COUNT - 1]);
	assert_null(roll_next_or_kept(&keeper, &kept));
	assert_int_equal(*(const size_t *)kept, 2);
	for (size_t i = 3; i < COUNT - 1; i++) {
		assert_ptr_equal(roll_next_or_kept(&keeper, &kept), &clients[i]);
		assert_null(kept);
		assert_ptr_equal(roll_next(&other), &clients[i]);
	}
	assert_null(roll_next_or_kept(&keeper, &kept));
	assert_int_equal(*(const size_t *)kept, COUNT - 1);
	assert_null(roll_next_or_kept(&keeper, &kept));
	assert_null(kept);
	assert_null(roll_next(&other));
	roll_end(&other, &site);
	roll_end(&keeper, &site);
	assert_true(list_is_empty(&site.rolls));
}

/* Its memory is freed, although nothing of the site exists any more. */
static void outlives_its_site(void **state)
{
	(void)state;
	struct client client = {.is_admin = false};
	struct site *site = mem_zero(sizeof(*site));
	struct roll roll;

	list_init(&site->rolls);
	roll_begin(&roll, site);
	roll.keep = keep_number;
	roll_add(&roll, &client);
	roll_leave(site, &client);
	roll_forget_all(site);
	assert_true(list_is_empty(&site->rolls));
	mem_free(site);
	roll_end(&roll, site);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(goes_on_without_the_dead),
	    cmocka_unit_test(keeps_something_of_those_who_go),
	    cmocka_unit_test(outlives_its_site),
	};

	return cmocka_run_group_tests_name("roll", tests, NULL, NULL);
}
