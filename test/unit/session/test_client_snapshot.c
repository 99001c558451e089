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
#include "session/client_snapshot.h"

static void goes_on_without_the_dead(void **state)
{
	(void)state;
	enum { COUNT = 200 };
	static struct client clients[COUNT];
	struct site site = {.loop = NULL};
	struct client_snapshot snapshot, other;
	const void *kept;

	list_init(&site.snapshots);
	client_snapshot_strike(&site, &clients[0]);
	client_snapshot_begin(&snapshot, &site);
	client_snapshot_begin(&other, &site);
	assert_null(client_snapshot_next(&snapshot, &kept));
	for (size_t i = 0; i < COUNT; i++)
		client_snapshot_add(&snapshot, &clients[i]);
	client_snapshot_add(&other, &clients[5]);
	for (size_t i = 0; i < 100; i++)
		assert_ptr_equal(client_snapshot_next(&snapshot, &kept), &clients[i]);
	client_snapshot_strike(&site, &clients[5]);
	client_snapshot_strike(&site, &clients[100]);
	client_snapshot_strike(&site, &clients[199]);
	for (size_t i = 101; i < 199; i++)
		assert_ptr_equal(client_snapshot_next(&snapshot, &kept), &clients[i]);
	assert_null(client_snapshot_next(&snapshot, &kept));
	assert_null(client_snapshot_next(&other, &kept));
	client_snapshot_end(&snapshot, &site);
	client_snapshot_strike(&site, &clients[1]);
	client_snapshot_end(&other, &site);
	assert_true(list_is_empty(&site.snapshots));
}

static void *keep_number(struct client_snapshot *snapshot, const struct client *client)
{
	size_t *kept = mem_alloc(sizeof(*kept));

	(void)snapshot;
	*kept = (size_t)client->conn.id;
	return kept;
}

/* In its old place, and only by snapshots that want it. */
static void keeps_something_of_those_who_go(void **state)
{
	(void)state;
	enum { COUNT = 100 };
	static struct client clients[COUNT];
	struct site site = {.loop = NULL};
	struct client_snapshot keeper, other;
	const void *kept;

	list_init(&site.snapshots);
	client_snapshot_begin(&keeper, &site);
	keeper.keep = keep_number;
	client_snapshot_begin(&other, &site);
	for (size_t i = 0; i < COUNT; i++) {
		clients[i].conn.id = i;
		client_snapshot_add(&keeper, &clients[i]);
		client_snapshot_add(&other, &clients[i]);
	}
	assert_ptr_equal(client_snapshot_next(&keeper, &kept), &clients[0]);
	assert_null(kept);
	client_snapshot_leave(&site, &clients[0]); /* was visited */
	client_snapshot_strike(&site, &clients[1]);
	client_snapshot_leave(&site, &clients[2]);
	client_snapshot_leave(&site, &clients[COUNT - 1]);
	assert_null(client_snapshot_next(&keeper, &kept));
	assert_int_equal(*(const size_t *)kept, 2);
	for (size_t i = 3; i < COUNT - 1; i++) {
		assert_ptr_equal(client_snapshot_next(&keeper, &kept), &clients[i]);
		assert_null(kept);
		assert_ptr_equal(client_snapshot_next(&other, &kept), &clients[i]);
	}
	assert_null(client_snapshot_next(&keeper, &kept));
	assert_int_equal(*(const size_t *)kept, COUNT - 1);
	assert_null(client_snapshot_next(&keeper, &kept));
	assert_null(kept);
	assert_null(client_snapshot_next(&other, &kept));
	client_snapshot_end(&other, &site);
	client_snapshot_end(&keeper, &site);
	assert_true(list_is_empty(&site.snapshots));
}

/* Its memory is freed, although nothing of the site exists any more. */
static void outlives_its_site(void **state)
{
	(void)state;
	struct client client = {.is_admin = false};
	struct site *site = mem_zero(sizeof(*site));
	struct client_snapshot snapshot;

	list_init(&site->snapshots);
	client_snapshot_begin(&snapshot, site);
	snapshot.keep = keep_number;
	client_snapshot_add(&snapshot, &client);
	client_snapshot_leave(site, &client);
	client_snapshot_forget_all(site);
	assert_true(list_is_empty(&site->snapshots));
	mem_free(site);
	client_snapshot_end(&snapshot, site);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(goes_on_without_the_dead),
	    cmocka_unit_test(keeps_something_of_those_who_go),
	    cmocka_unit_test(outlives_its_site),
	};

	return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
