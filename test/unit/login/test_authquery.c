/*
 * auth_query while clients come and go: in which database it runs, for how many
 * clients, what ends it, and how long an answer is kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/asking.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

/* ---- where it is asked ---- */

static void database_to_ask_must_be_there(void **state)
{
	(void)state;
	struct stage *stage = stage_new(AUTH " auth_dbname=e", "");
	assert_ends_with(come(stage, "w"), CONFIG_ERROR);
	stage_free(&stage);
	stage = stage_new(AUTH " auth_dbname=e\ne = host=@nowhere", "");
	catalog_find_database(stage->site.catalog, "e")->disabled = true;
	assert_ends_with(
	    come(stage, "w"), "E:FATAL:authentication database \"e\" is disabled");
	stage_free(&stage);
	stage = stage_new(AUTH " auth_dbname=pgbouncer", "");
	catalog_add_admin(stage->site.catalog, stage->site.catalog->service);
	assert_ends_with(come(stage, "w"), CONFIG_ERROR);
	stage_free(&stage);
}

static void settings_are_those_of_the_database_first(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = asked("", "auth_user = u\n", &client, &server);
	answer(server, "w", NULL);
	peer_close(client);
	stage_set(stage, "auth_user", "");
	assert_ends_with(come(stage, "w"), "E:FATAL:\"trust\" authentication failed");
	stage_free(&stage);
	stage = asked("auth_user=v", "auth_user = nobody\n", &client, &server);
	assert_int_equal(catalog_find_user(stage->site.catalog, "v")->server_count, 1);
	stage_free(&stage);
}

/* ---- many at once ---- */

static void many_clients_one_query(void **state)
{
	enum { CLIENTS = 400 }; /* a process may have 1,024 descriptors */
	static const char all[] = ANSWERED;
	(void)state;
	struct stage *stage =
	    stage_new(AUTH, PLAIN "max_client_conn = 2000\nlisten_backlog = 2000\n");
	struct peer *clients[CLIENTS], *server;
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = come(stage, "w");
		if (i % 50 == 0)
			stage_settle(stage);
	}
	stage_settle(stage);
	server = stage_ready_server(stage);
	assert_string_equal(peer_hear(server, 'S'), all);
	/* some clients disconnect before the query is answered */
	for (int i = 0; i < 100; i++)
		peer_close(clients[i]);
	stage_settle(stage);
	answer(server, "w", "found");
	for (int i = 100; i < CLIENTS; i++)
		assert_string_equal(peer_hear(clients[i], 'R'), "R");
	assert_string_equal(peer_heard(server), "");
	assert_int_equal(stage->dialed, 1);
	stage_free(&stage);
}

static void other_names_are_other_queries(void **state)
{
	(void)state;
	struct peer *client, *server, *other;
	struct stage *stage =
	    asked(AUTH, PLAIN "default_pool_size = 1\n", &client, &server);
	struct peer *second = come(stage, "x");
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->waiting.count, 1);
	answer(server, "w", "found");
	peer_hear(client, 'R');
	assert_string_equal(peer_hear(server, 'S'), ANSWERED);
	answer(server, "x", "other");
	peer_hear(second, 'R');
	peer_text(second, 'p', "found");
	assert_ends_with(second, WRONG);
	peer_text(client, 'p', "found");
	other = stage_ready_server(stage);
	assert_ptr_not_equal(other, server);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

/* ---- disconnects and timeouts ---- */

static void client_may_go_while_it_queues(void **state)
{
	(void)state;
	struct stage *stage = stage_new(AUTH, PLAIN);
	struct peer *client = come(stage, "w"), *server = stage_server(stage);
	peer_close(client);
	stage_settle(stage);
	assert_int_equal(map_count(stage->site.lookups), 0);
	assert_true(list_is_empty(&stage_pool(stage)->waiting));
	peer_first_packet(server);
	peer_greet(server);
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->slots[SLOT_IDLE].count, 1);
	stage_free(&stage);
}

/* The server finishes a query whose client has left and is used again. */
static void client_may_go_while_it_runs(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage =
	    asked(AUTH " auth_query_cache_time=9", PLAIN, &client, &server);
	peer_close(client);
	stage_settle(stage);
	assert_int_equal(map_count(stage->site.lookups), 0);
	client = come(stage, "w");
	stage_settle(stage);
	answer(server, "w", "late");
	assert_string_equal(peer_hear(server, 'S'), ANSWERED);
	answer(server, "w", "found");
	peer_hear(client, 'R');
	peer_text(client, 'p', "late");
	assert_ends_with(client, WRONG);
	stage_free(&stage);
}

static void client_may_go_in_the_turn_of_the_answer(void **state)
{
	(void)state;
	for (int order = 0; order < 2; order++) {
		struct peer *client, *server;
		struct stage *stage = asked(AUTH, PLAIN, &client, &server);
		if (order)
			peer_close(client);
		answer(server, "w", "found");
		if (!order)
			peer_close(client);
		stage_settle(stage);
		assert_int_equal(site_client_count(&stage->site), 0);
		assert_int_equal(stage_pool(stage)->slots[SLOT_IDLE].count, 1);
		stage_free(&stage);
	}
}

static void everything_may_end_while_it_runs(void **state)
{
	(void)state;
	for (int is_running = 0; is_running < 2; is_running++) {
		struct stage *stage = stage_new(AUTH, PLAIN);
		struct peer *server;
		come(stage, "w");
		come(stage, "x");
		if (is_running)
			server = stage_ready_server(stage);
		else
			server = stage_server(stage);
		stage_settle(stage);
		(void)server;
		stage_free(&stage);
	}
}

static void limits_of_the_queue_hold(void **state)
{
	(void)state;
	struct stage *stage = stage_new(AUTH, PLAIN "query_wait_timeout = 0.03\n");
	assert_ends_with(come(stage, "w"), "E:FATAL:query_wait_timeout");
	stage_set(stage, "query_wait_timeout", "0");
	stage_set(stage, "query_timeout", "0.03");
	assert_ends_with(come(stage, "w"), "E:FATAL:query_timeout");
	stage_set(stage, "query_timeout", "0");
	stage_set(stage, "client_login_timeout", "0.03");
	assert_ends_with(come(stage, "w"), "E:FATAL:client_login_timeout");
	assert_true(list_is_empty(&stage_pool(stage)->waiting));
	stage_free(&stage);
}

/* Timeouts of the queue end with the wait; auth_query has its own timeout. */
static void limits_of_the_queue_end(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage =
	    asked(AUTH, PLAIN "query_wait_timeout = 0.05\n", &client, &server);
	uint64_t end = loop_now(stage->site.loop) + 120000;
	while (loop_now(stage->site.loop) < end)
		stage_turn(stage);
	answer(server, "w", "found");
	peer_hear(client, 'R');
	end = loop_now(stage->site.loop) + 120000;
	while (loop_now(stage->site.loop) < end)
		stage_turn(stage);
	peer_text(client, 'p', "wrong");
	assert_ends_with(client, WRONG);
	stage_free(&stage);
}

static void query_has_an_end(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = stage_new(AUTH, PLAIN "query_timeout = 0.2\n");
	client = come(stage, "w");
	server = stage_ready_server(stage);
	peer_hear(server, 'S');
	assert_ends_with(client, CONFIG_ERROR);
	peer_last_words(server);
	stage_free(&stage);
}

static void login_has_an_end_while_it_runs(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage =
	    asked(AUTH, PLAIN "client_login_timeout = 0.2\n", &client, &server);
	assert_ends_with(client, "E:FATAL:client_login_timeout");
	answer(server, "w", "found");
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->slots[SLOT_IDLE].count, 1);
	stage_free(&stage);
}

static void pool_may_be_killed(void **state)
{
	(void)state;
	struct stage *stage = stage_new(AUTH, PLAIN);
	struct peer *client = come(stage, "w"), *server = stage_server(stage);
	stage_settle(stage);
	catalog_kill(stage->site.catalog, NULL, "database removed");
	assert_ends_with(client, "E:FATAL:database removed");
	peer_last_words(server);
	stage_free(&stage);
	stage = asked(AUTH, PLAIN, &client, &server);
	catalog_kill(stage->site.catalog, NULL, "database removed");
	assert_ends_with(client, CONFIG_ERROR);
	stage_free(&stage);
}

static void pause_lets_it_end(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = asked(AUTH, PLAIN, &client, &server);
	struct peer *late;
	stage->site.catalog->paused = true;
	catalog_schedule_all(stage->site.catalog, NULL);
	late = come(stage, "x");
	stage_settle(stage);
	answer(server, "w", "found");
	peer_hear(client, 'R');
	assert_string_equal(peer_last_words(server), "X");
	assert_string_equal(peer_heard(late), "");
	stage->site.catalog->paused = false;
	catalog_schedule_all(stage->site.catalog, NULL);
	server = stage_ready_server(stage);
	peer_hear(server, 'S');
	stage_free(&stage);
}

static void shutdown_refuses_who_waits(void **state)
{
	(void)state;
	struct stage *stage = stage_new(AUTH, PLAIN);
	struct peer *client = come(stage, "w"), *late;
	stage_settle(stage);
	stage->site.catalog->refuse_waiting = true;
	stage->site.shutdown = SHUTDOWN_WAIT_FOR_SERVERS;
	late = come(stage, "x");
	assert_ends_with(late, "E:FATAL:server shutting down");
	catalog_schedule_all(stage->site.catalog, NULL);
	assert_ends_with(client, "E:FATAL:server shutting down");
	stage_free(&stage);
}

static void failing_server_is_told(void **state)
{
	(void)state;
	struct stage *stage = stage_new(AUTH, PLAIN "server_login_retry = 60\n");
	struct peer *client = come(stage, "w"), *server = stage_server(stage);
	peer_first_packet(server);
	put_error(server, "no such role");
	assert_ends_with(client, "E:FATAL:no such role");
	stage_settle(stage);
	assert_ends_with(come(stage, "w"),
	    "E:FATAL:server login has been failing, cached error: no such role "
	    "(server_login_retry)");
	stage_free(&stage);
}

static void reload_outdates_what_runs(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage =
	    asked(AUTH " auth_query_cache_time=9", PLAIN, &client, &server);
	stage_set(stage, "auth_user", "v");
	answer(server, "w", "found");
	peer_hear(client, 'R');
	/* the query began before the change: its answer is not kept */
	come(stage, "w");
	assert_string_equal(peer_hear(server, 'S'), ANSWERED);
	stage_free(&stage);
}

/* ---- answers that are kept ---- */

#define KEPT AUTH " auth_query_cache_time=60"

/* w is logged in with the password "found". */
static struct stage *kept(const char *settings, struct peer **server)
{
	struct peer *client;
	struct stage *stage = asked(KEPT, settings, &client, server);
	answer(*server, "w", "found");
	peer_hear(client, 'R');
	peer_text(client, 'p', "found");
	stage_ready_server(stage);
	peer_hear(client, 'Z');
	return stage;
}

static void kept_answer_is_used(void **state)
{
	(void)state;
	struct peer *server;
	struct stage *stage = kept(PLAIN, &server);
	for (int i = 0; i < 3; i++) {
		struct peer *client = come(stage, "w");
		peer_hear(client, 'R');
		peer_text(client, 'p', "found");
		peer_hear(client, 'Z');
	}
	assert_string_equal(peer_heard(server), "");
	stage_free(&stage);
}

static void changed_password_works_at_once(void **state)
{
	(void)state;
	struct peer *server;
	struct stage *stage = kept(PLAIN, &server);
	struct peer *client = come(stage, "w"), *md5;
	peer_hear(client, 'R');
	peer_text(client, 'p', "changed");
	peer_hear(server, 'S');
	answer(server, "w", "changed");
	peer_hear(client, 'Z');
	client = come(stage, "w");
	peer_hear(client, 'R');
	peer_text(client, 'p', "changed");
	peer_hear(client, 'Z');
	stage_set(stage, "auth_type", "md5");
	/* SET has dropped the cached answer */
	md5 = come(stage, "w");
	peer_hear(server, 'S');
	answer(server, "w", "changed");
	md5_answer(md5, "changed", "w");
	peer_hear(md5, 'Z');
	md5 = come(stage, "w");
	md5_answer(md5, "again", "w");
	peer_hear(server, 'S');
	answer(server, "w", "again");
	peer_hear(md5, 'Z');
	stage_free(&stage);
}

static void wrong_password_is_asked_about_once(void **state)
{
	(void)state;
	struct peer *server;
	struct stage *stage = kept(PLAIN, &server);
	struct peer *client = come(stage, "w");
	peer_hear(client, 'R');
	peer_text(client, 'p', "wrong");
	assert_string_equal(peer_hear(server, 'S'), ANSWERED);
	answer(server, "w", "found");
	assert_ends_with(client, WRONG);
	/* the user disappears meanwhile */
	client = come(stage, "w");
	peer_hear(client, 'R');
	peer_text(client, 'p', "wrong");
	peer_hear(server, 'S');
	columns(server, 2);
	peer_answer(server, "SELECT 0", 'I');
	assert_ends_with(client, WRONG);
	/* the password changes meanwhile */
	client = come(stage, "w");
	peer_hear(client, 'R');
	peer_text(client, 'p', "wrong");
	peer_hear(server, 'S');
	answer(server, "other", "wrong");
	assert_ends_with(client, WRONG);
	stage_free(&stage);
}

static void client_may_go_while_asked_again(void **state)
{
	(void)state;
	struct peer *server;
	struct stage *stage = kept(PLAIN, &server);
	struct peer *client = come(stage, "w");
	peer_hear(client, 'R');
	peer_text(client, 'p', "wrong");
	peer_hear(server, 'S');
	peer_close(client);
	stage_settle(stage);
	answer(server, "w", "found");
	stage_settle(stage);
	assert_int_equal(map_count(stage->site.lookups), 0);
	stage_free(&stage);
}

static void failed_scram_drops_the_answer(void **state)
{
	(void)state;
	struct peer *server;
	char hashed[256];
	struct stage *stage = kept(PLAIN, &server);
	stage_set(stage, "auth_type", "scram-sha-256");
	struct peer *client = come(stage, "w");
	peer_hear(server, 'S');
	answer(server, "w", scram_secret("found", hashed));
	scram_login(client, "found");
	peer_hear(client, 'Z');
	client = come(stage, "w");
	scram_login(client, "changed");
	assert_ends_with(client, "E:FATAL:SASL authentication failed");
	client = come(stage, "w");
	peer_hear(server, 'S');
	answer(server, "w", scram_secret("changed", hashed));
	scram_login(client, "changed");
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void reload_and_reconnect_drop_all(void **state)
{
	(void)state;
	struct peer *server;
	struct stage *stage = kept(PLAIN, &server);
	struct peer *client;
	stage_users(stage, "\"u\" \"secret\"\n");
	client = come(stage, "w");
	peer_hear(server, 'S');
	answer(server, "w", "found");
	peer_hear(client, 'R');
	catalog_mark_dirty(stage->site.catalog, NULL);
	client = come(stage, "w");
	server = stage_ready_server(stage);
	assert_string_equal(peer_hear(server, 'S'), ANSWERED);
	stage_free(&stage);
}

static void kept_answer_grows_old(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage =
	    asked(AUTH, PLAIN "auth_query_cache_time = 0.05\n", &client, &server);
	answer(server, "w", "found");
	peer_hear(client, 'R');
	uint64_t end = loop_now(stage->site.loop) + 60000;
	while (loop_now(stage->site.loop) < end)
		stage_turn(stage);
	come(stage, "w");
	assert_string_equal(peer_hear(server, 'S'), ANSWERED);
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(database_to_ask_must_be_there),
	    cmocka_unit_test(settings_are_those_of_the_database_first),
	    cmocka_unit_test(many_clients_one_query),
	    cmocka_unit_test(other_names_are_other_queries),
	    cmocka_unit_test(client_may_go_while_it_queues),
	    cmocka_unit_test(client_may_go_while_it_runs),
	    cmocka_unit_test(client_may_go_in_the_turn_of_the_answer),
	    cmocka_unit_test(everything_may_end_while_it_runs),
	    cmocka_unit_test(limits_of_the_queue_hold),
	    cmocka_unit_test(limits_of_the_queue_end),
	    cmocka_unit_test(query_has_an_end),
	    cmocka_unit_test(login_has_an_end_while_it_runs),
	    cmocka_unit_test(pool_may_be_killed),
	    cmocka_unit_test(pause_lets_it_end),
	    cmocka_unit_test(shutdown_refuses_who_waits),
	    cmocka_unit_test(failing_server_is_told),
	    cmocka_unit_test(reload_outdates_what_runs),
	    cmocka_unit_test(kept_answer_is_used),
	    cmocka_unit_test(changed_password_works_at_once),
	    cmocka_unit_test(wrong_password_is_asked_about_once),
	    cmocka_unit_test(client_may_go_while_asked_again),
	    cmocka_unit_test(failed_scram_drops_the_answer),
	    cmocka_unit_test(reload_and_reconnect_drop_all),
	    cmocka_unit_test(kept_answer_grows_old),
	};
	return stage_run_twice(tests);
}
