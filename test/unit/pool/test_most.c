/*
 * What is kept of clients and users is limited: how often clients got a server, what
 * auth_query has found, servers that stay with their clients.  And what a client that
 * waits waits for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "pool/activity.h"
#include "pool/credentials.h"
#include "pool/pins.h"
#include "pool_fixture.h"

#define INI "[databases]\ndb=\n[pgbouncer]\nauth_query_cache_time=60\n"

/* Those who come when there is no room are counted in the total only. */
static void clients_without_room_are_not_counted(void **state)
{
	struct pool_request *requests = calloc(ACTIVITY_MOST + 1, sizeof(*requests));
	struct fixture w;

	(void)state;
	fixture_init(&w, INI);
	activity_begin(w.c);
	struct activity *a = w.c->activity;
	for (size_t i = 0; i <= ACTIVITY_MOST; i++)
		activity_note(a, &requests[i]);
	activity_note(a, &requests[0]);
	assert_int_equal(a->count, ACTIVITY_MOST);
	assert_int_equal(a->total, ACTIVITY_MOST + 2);
	assert_int_equal(a->entries[0].count, 2);
	activity_leave(a, &requests[ACTIVITY_MOST]);
	activity_leave(a, &requests[0]);
	assert_null(a->entries[0].request);
	activity_end(w.c);
	fixture_done(&w);
	free(requests);
}

/* When they are too many, auth_query is asked again for all of them. */
static void credentials_do_not_grow_for_ever(void **state)
{
	enum { MOST = 10000 };
	struct secret secret;
	struct fixture w;
	char name[32];

	(void)state;
	fixture_init(&w, INI);
	struct database *db = catalog_find_database(w.c, "db");
	struct user *user = catalog_user(w.c, "u");
	secret_init(&secret, "plain");
	for (int i = 0; i <= MOST; i++) {
		snprintf(name, sizeof(name), "user%d", i);
		credential_keep(db, name, user, &secret, w.now);
		if (i == MOST - 1)
			assert_non_null(credential_find(db, "user0", w.now));
	}
	assert_null(credential_find(db, "user0", w.now));
	assert_non_null(credential_find(db, name, w.now));
	secret_done(&secret);
	fixture_done(&w);
}

static void a_client_waits_for_what_is_lacking(void **state)
{
	struct fixture w;

	(void)state;
	fixture_init(&w, INI "default_pool_size=0\n");
	struct pool *pool = fixture_pool(&w, "db", "u");
	assert_string_equal(pool_waits_for(pool), "connect");
	pool->database->paused = true;
	assert_string_equal(pool_waits_for(pool), "pause");
	pool->database->paused = false;
	/* without a size, any number of servers may stay with their clients */
	assert_int_equal(pins_most(pool), INT32_MAX);
	fixture_set(&w, "max_pinned_servers", "3");
	assert_int_equal(pins_most(pool), 3);
	fixture_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(clients_without_room_are_not_counted),
	    cmocka_unit_test(credentials_do_not_grow_for_ever),
	    cmocka_unit_test(a_client_waits_for_what_is_lacking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
