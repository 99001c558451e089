/* The greatest number of server connections that a configuration can open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/entry.h"
#include "daemon/sizing.h"
#include "daemon/worker_threads.h"

static struct sizing sizing;
static struct sizing_input input;
static struct database_config template;
static struct config *config;
static struct userlist *users;
static struct arena *arena;

static void forget(void)
{
	sizing_done(&sizing);
	userlist_unref(&users);
	config_unref(&config);
	arena_free(&arena);
}

/* Sizes the ini file of this text, with users a, b and c in the user list. */
static void size_up(const char *text, bool has_external_auth)
{
	static const char list[] = "\"a\" \"1\"\n\"b\" \"2\"\n\"c\" \"3\"\n";
	char path[] = "/tmp/test-sizing-XXXXXX";
	int fd = mkstemp(path);
	struct err err;

	forget();
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	config = config_load(path, NULL, NULL, NULL, NULL, &err);
	unlink(path);
	assert_non_null(config);
	users = userlist_parse("users", list, strlen(list), NULL, NULL, NULL);
	arena = arena_new();
	input = (struct sizing_input){.config = config,
	    .users = users,
	    .workers = (unsigned)config->settings.workers,
	    .has_external_auth = has_external_auth};
	if (config->template) {
		assert_int_equal(entry_parse_connstr(&template, "*",
				     config->template->connstr, arena, &err),
		    0);
		input.template = &template;
	}
	sizing_init(&sizing, &input);
}

/* The numbers of the i-th host. */
static void has_host(
    size_t i, const char *host, int port, size_t databases, int64_t named, int64_t all)
{
	assert_true(i < sizing.host_count);
	assert_string_equal(sizing.hosts[i].host, host);
	assert_int_equal(sizing.hosts[i].port, port);
	assert_int_equal(sizing.hosts[i].database_count, databases);
	assert_int_equal(sizing.hosts[i].servers.named, named);
	assert_int_equal(sizing.hosts[i].servers.all, all);
}

static int clean_up(void **state)
{
	(void)state;
	forget();
	return 0;
}

static void each_user_has_a_pool(void **state)
{
	(void)state;
	size_up("[databases]\nx = host=h pool_size=7\ny = host=h user=f\n"
		"z = port=6000\n[pgbouncer]\n"
		"default_pool_size = 10\nreserve_pool_size = 2\n",
	    false);
	assert_int_equal(sizing.host_count, 2);
	has_host(0, "h", 5432, 2, 3 * (7 + 2) + 12, 3 * (7 + 2) + 12);
	has_host(1, "/tmp", 6000, 1, 36, 36);
	assert_int_equal(sizing.servers.all, 39 + 36);
	/* The socket's folder by its name is the same host. */
	size_up("[databases]\nx =\ny = host=/tmp\n[pgbouncer]\n", false);
	assert_int_equal(sizing.host_count, 1);
	has_host(0, "/tmp", 5432, 2, 2 * 3 * 20, 2 * 3 * 20);
}

static void reserve_without_timeout(void **state)
{
	(void)state;
	size_up("[databases]\nx = host=h user=f\n[pgbouncer]\n"
		"reserve_pool_size = 5\nreserve_pool_timeout = 0\n",
	    false);
	has_host(0, "h", 5432, 1, 20, 20);
}

static void each_host_may_get_all(void **state)
{
	(void)state;
	size_up("[databases]\nx = host=h1,h2 user=f pool_size=9\n[pgbouncer]\n", false);
	assert_int_equal(sizing.host_count, 2);
	has_host(0, "h1", 5432, 1, 9, 9);
	has_host(1, "h2", 5432, 1, 9, 9);
	assert_int_equal(sizing.servers.all, 9);
}

static void users_come_before_databases(void **state)
{
	(void)state;
	size_up("[databases]\nx = host=h pool_size=10\n[users]\na = pool_size=3\n"
		"nobody = pool_size=1000\n[pgbouncer]\n",
	    false);
	has_host(0, "h", 5432, 1, 3 + 10 + 10, 3 + 10 + 10);
}

static void limits(void **state)
{
	(void)state;
	size_up(
	    "[databases]\nx = host=h max_db_connections=15\ny = host=h pool_size=4\n"
	    "[pgbouncer]\n",
	    false);
	has_host(0, "h", 5432, 2, 15 + 12, 15 + 12);
	size_up("[databases]\nx = host=h\ny = host=h\n[pgbouncer]\n"
		"max_user_connections = 25\n",
	    false);
	has_host(0, "h", 5432, 2, 75, 75);
	size_up("[databases]\nx = host=h\n[pgbouncer]\nmax_server_connections = 11\n",
	    false);
	has_host(0, "h", 5432, 1, 11, 11);
	/* At another host a user may use what is left of the limit there. */
	size_up("[databases]\nx = host=h1 pool_size=4\ny = host=h2\n[users]\n"
		"a = max_user_connections=6\n[pgbouncer]\n",
	    false);
	has_host(0, "h1", 5432, 1, 4 + 4 + 4, 4 + 4 + 4);
	has_host(1, "h2", 5432, 1, 6 + 20 + 20, 6 + 20 + 20);
	assert_int_equal(sizing.servers.all, 6 + 24 + 24);
}

/* x is limited by its own limit, and y and z by that of their user. */
static void limits_of_both_kinds(void **state)
{
	(void)state;
	size_up("[databases]\nx = host=h max_db_connections=10\n"
		"y = host=h user=f max_db_connections=18\n"
		"z = host=h user=f max_db_connections=18\n[users]\n"
		"f = max_user_connections=15\n[pgbouncer]\n",
	    false);
	has_host(0, "h", 5432, 3, 10 + 15, 10 + 15);
	/* The limits of the users are narrower than those of the databases. */
	size_up("[databases]\nx = host=h max_db_connections=5 pool_size=5\n"
		"y = host=h max_db_connections=5 pool_size=5 user=a\n[users]\n"
		"a = max_user_connections=5\nb = max_user_connections=2\n"
		"c = max_user_connections=2\n[pgbouncer]\n",
	    false);
	has_host(0, "h", 5432, 2, 9, 9);
}

/* 22 are possible: a and b have 8 each at y and z, c has 5 there, and x has one.  The
 * sum over users gives this one to both a and b. */
static void a_bound_that_is_not_reached(void **state)
{
	(void)state;
	size_up("[databases]\nx = host=h max_db_connections=1\ny = host=h\n"
		"z = host=h\n[users]\na = pool_size=4\nb = pool_size=4\n"
		"c = max_user_connections=5\n[pgbouncer]\n"
		"default_pool_size = 4\n",
	    false);
	has_host(0, "h", 5432, 3, 9 + 9 + 5, 9 + 9 + 5);
}

static void what_has_no_limit(void **state)
{
	(void)state;
	size_up("[databases]\nx = host=h\n[pgbouncer]\ndefault_pool_size = 0\n", false);
	has_host(0, "h", 5432, 1, SIZING_NO_LIMIT, SIZING_NO_LIMIT);
	assert_int_equal(sizing.descriptors, SIZING_NO_LIMIT);
	size_up("[databases]\nx = host=h max_db_connections=30\n[pgbouncer]\n"
		"default_pool_size = 0\n",
	    false);
	has_host(0, "h", 5432, 1, 30, 30);
}

static void users_that_are_found(void **state)
{
	(void)state;
	/* The one who asks has a pool, too. */
	size_up("[databases]\nx = host=h\n[pgbouncer]\nauth_user = asker\n", false);
	has_host(0, "h", 5432, 1, 4 * 20, SIZING_NO_LIMIT);
	assert_true(sizing_has_other_users(&input, &config->databases[0]));
	assert_int_equal(sizing_listed_users(&input, &config->databases[0]), 3);
	size_up("[databases]\nx = host=h auth_user=asker auth_dbname=y\n"
		"y = host=g user=f\n[pgbouncer]\nmax_db_connections = 70\n",
	    false);
	has_host(0, "h", 5432, 1, 60, 70);
	has_host(1, "g", 5432, 1, 20 + 20, 20 + 20);
	size_up(
	    "[databases]\nx = host=h\n[pgbouncer]\nmax_user_connections = 3\n", true);
	has_host(0, "h", 5432, 1, 9, SIZING_NO_LIMIT);
}

static void databases_from_the_template(void **state)
{
	(void)state;
	size_up("[databases]\nx = host=h\n* = host=g\n[pgbouncer]\n", false);
	has_host(0, "h", 5432, 1, 60, 60);
	has_host(1, "g", 5432, 1, 0, SIZING_NO_LIMIT);
	size_up("[databases]\n* = host=g user=a\n[users]\na = max_user_connections=8\n"
		"[pgbouncer]\n",
	    false);
	has_host(0, "g", 5432, 1, 0, 8);
}

static void nobody_has_a_choice(void **state)
{
	(void)state;
	size_up("[databases]\nx = host=h user=f\ny = host=h\n[pgbouncer]\n"
		"auth_type = any\nauth_user = asker\n",
	    false);
	has_host(0, "h", 5432, 2, 20, 20);
}

static void descriptors(void **state)
{
	(void)state;
	size_up("[databases]\nx = host=h user=f pool_size=5\n[peers]\n"
		"1 = host=p1\n2 = host=p2 pool_size=6\n3 = host=p3\n[pgbouncer]\n"
		"max_client_conn = 300\npeer_id = 1\n",
	    false);
	assert_int_equal(sizing.clients, 300);
	assert_int_equal(sizing.peers, 6 + 20);
	assert_int_equal(sizing.descriptors, 300 + 5 + 26 + sizing.others);
}

/* Each has some of its own. */
static void descriptors_of_workers(void **state)
{
	int64_t one;

	(void)state;
	size_up("[databases]\nx = host=h user=f\n[pgbouncer]\n", false);
	one = sizing.others;
	size_up("[databases]\nx = host=h user=f\n[pgbouncer]\nworkers = 3\n", false);
	assert_true(sizing.others > one);
	assert_int_equal(sizing.others - one, worker_threads_descriptors(3));
	assert_int_equal(worker_threads_descriptors(1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_user_has_a_pool),
	    cmocka_unit_test(reserve_without_timeout),
	    cmocka_unit_test(each_host_may_get_all),
	    cmocka_unit_test(users_come_before_databases),
	    cmocka_unit_test(limits),
	    cmocka_unit_test(limits_of_both_kinds),
	    cmocka_unit_test(a_bound_that_is_not_reached),
	    cmocka_unit_test(what_has_no_limit),
	    cmocka_unit_test(users_that_are_found),
	    cmocka_unit_test(databases_from_the_template),
	    cmocka_unit_test(nobody_has_a_choice),
	    cmocka_unit_test(descriptors),
	    cmocka_unit_test(descriptors_of_workers),
	};

	return cmocka_run_group_tests(tests, NULL, clean_up);
}
