/*
 * Idle and tested servers, and the pool's verdicts carried out: checks, resets,
 * RECONNECT, PAUSE, KILL, and messages of a server that no client asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../stage/stage.h"
#include "broker/broker.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

static size_t count(struct stage *stage, enum slot_state state)
{
	return stage_pool(stage)->slots[state].count;
}

static void notification_at_rest_is_harmless(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_put(server, 'A', "\0\0\0\1c\0p\0", 8);
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	assert_string_equal(peer_heard(client), "");
	stage_free(&stage);
}

/* A promotion is reported by all servers of a host at once. */
static void role_that_changes_at_rest_is_noted(void **state)
{
	(void)state;
	for (int is_any = 0; is_any < 2; is_any++) {
		const char *options = is_any ? "" : "target_session_attrs=standby";
		struct stage *stage = stage_new(options, "");
		struct peer *client = stage_client(stage), *server;
		peer_start(client, "u", "d", NULL, NULL);
		if (!is_any)
			stage_monitor(stage, true);
		server = stage_server(stage);
		peer_first_packet(server);
		peer_put(server, 'S', "in_hot_standby\0on", 18);
		peer_greet(server);
		peer_hear(client, 'Z');
		peer_put(server, 'S', "in_hot_standby\0off", 19);
		if (is_any) {
			stage_settle(stage);
			assert_int_equal(count(stage, SLOT_IDLE), 1);
			/* who is lent the server is told */
			peer_text(client, 'Q', "select 1");
			peer_hear(server, 'Q');
			peer_answer(server, "SELECT 1", 'I');
			assert_string_equal(peer_hear(client, 'Z'), "S C:SELECT 1 Z:I");
		} else {
			peer_last_words(server);
			assert_int_equal(count(stage, SLOT_IDLE), 0);
		}
		stage_free(&stage);
	}
}

static void dirty_server_is_closed(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
	} words[] = {{"N\0\0\0\x05", 6}, {"E\0\0\0\x05", 6},
	    {"S\0\0\0\x08"
	     "a\0b",
		9},
	    {"Z\0\0\0\x05I", 6}, {"D\0\0\0\x06\0", 7}, {"S\x7f\0\0\0", 5},
	    {"!!!!!!!!!!", 10}};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct stage *stage = stage_new("", "");
		struct peer *client, *server;
		stage_pair(stage, &client, &server);
		peer_send(server, words[i].bytes, words[i].len);
		peer_last_words(server);
		stage_settle(stage);
		assert_int_equal(stage->site.server_count, 0);
		assert_false(client->has_ended);
		stage_free(&stage);
	}
}

/* Every message a server may send, and one that it may not send. */
static const struct {
	const char *bytes;
	size_t len;
} anything[] = {
    {"R\0\0\0\x08\0\0\0\0", 9},
    {"K\0\0\0\x0c\0\0\0\1\0\0\0\2", 13},
    {"1\0\0\0\4", 5},
    {"2\0\0\0\4", 5},
    {"3\0\0\0\4", 5},
    {"A\0\0\0\x0c\0\0\0\1c\0p\0", 13},
    {"C\0\0\0\x0dSELECT 1\0", 14},
    {"D\0\0\0\x0b\0\1\0\0\0\1x", 12},
    {"d\0\0\0\5x", 6},
    {"c\0\0\0\4", 5},
    {"E\0\0\0\x0dSERROR\0\0", 14},
    {"G\0\0\0\7\0\0\0", 8},
    {"H\0\0\0\7\0\0\0", 8},
    {"I\0\0\0\4", 5},
    {"N\0\0\0\x0eSNOTICE\0\0", 15},
    {"n\0\0\0\4", 5},
    {"S\0\0\0\x0dTimeZone\0", 14},
    {"s\0\0\0\4", 5},
    {"T\0\0\0\6\0\0", 7},
    {"t\0\0\0\6\0\0", 7},
    {"V\0\0\0\x08\xff\xff\xff\xff", 9},
    {"W\0\0\0\7\0\0\0", 8},
    {"Z\0\0\0\5I", 6},
    {"!\0\0\0\4", 5},
};
enum { ANYTHING = sizeof(anything) / sizeof(anything[0]) };

/* The next client gets another server, and the answer to its own query. */
static void next_client_is_served(struct stage *stage, struct peer *client)
{
	struct peer *server = stage_ready_server(stage);

	peer_hear(server, 'Q');
	peer_answer(server, "NEXT", 'I');
	assert_string_equal(peer_hear(client, 'Z'), "C:NEXT Z:I");
}

static void part_of_a_message_at_rest_closes_the_server(void **state)
{
	(void)state;
	for (size_t i = 0; i < ANYTHING; i++) {
		for (size_t len = 1; len < anything[i].len; len++) {
			struct stage *stage = stage_new("pool_size=1", "");
			struct peer *client, *server;
			stage_pair(stage, &client, &server);
			peer_send(server, anything[i].bytes, len);
			stage_settle(stage);
			assert_int_equal(count(stage, SLOT_IDLE), 0);
			peer_text(client, 'Q', "next");
			peer_last_words(server);
			next_client_is_served(stage, client);
			stage_free(&stage);
		}
	}
}

static bool may_come_at_any_time(uint8_t type)
{
	return type == 'A' || type == 'N' || type == 'S';
}

/* The server is given back while part of a message has come already, and a client waits
 * for it. */
static void give_back(const char *behind, size_t len, bool is_kept)
{
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *server;
	uint8_t bytes[64] = "C\0\0\0\6A\0Z\0\0\0\5I";

	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", NULL, NULL);
	peer_text(a, 'Q', "of a");
	peer_hear(server, 'Q');
	peer_text(b, 'Q', "next");
	stage_settle(stage);
	memcpy(bytes + 13, behind, len);
	peer_send(server, bytes, 13 + len);
	assert_string_equal(peer_hear(a, 'Z'), "C:A Z:I");
	if (is_kept) {
		assert_string_equal(peer_hear(server, 'Q'), "Q:next");
	} else {
		peer_last_words(server);
		next_client_is_served(stage, b);
	}
	stage_free(&stage);
}

static void part_of_a_message_behind_an_answer_closes_the_server(void **state)
{
	(void)state;
	for (size_t i = 0; i < ANYTHING; i++) {
		for (size_t len = 1; len < anything[i].len; len++)
			give_back(anything[i].bytes, len, false);
		give_back(anything[i].bytes, anything[i].len,
		    may_come_at_any_time((uint8_t)anything[i].bytes[0]));
	}
}

/* A server whose answer to the check cannot be used, or does not come, is closed, and
 * the client gets another one. */
static void check_without_a_good_answer_closes_the_server(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} answers[] = {{"Z\0\0\0\5?", 6}, {"Z\0\0\0\5T", 6}, {"Z\0\0\0\5I", 6},
	    {"S\0\0\0\7"
	     "a\0b",
		8},
	    {"S\0\x20\0\0a\0", 7}, {"1\0\0\0\4", 5}, {"", 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct stage *stage = stage_new("pool_size=1",
		    "server_check_query = select 1\nserver_check_delay = 0\n"
		    "server_idle_timeout = 0.3\n");
		struct peer *client, *server;
		stage_pair(stage, &client, &server);
		peer_text(client, 'Q', "next");
		assert_string_equal(peer_hear(server, 'Q'), "Q:select 1");
		peer_send(server, answers[i].bytes, answers[i].len);
		peer_last_words(server);
		next_client_is_served(stage, client);
		stage_free(&stage);
	}
}

static void server_is_reset_after_a_session(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "pool_mode = session\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "one");
	peer_hear(server, 'Q');
	peer_answer(server, "ONE", 'I');
	peer_hear(client, 'Z');
	peer_put(client, 'X', "", 0);
	assert_string_equal(peer_hear(server, 'Q'), "Q:DISCARD ALL");
	assert_int_equal(count(stage, SLOT_TESTED), 1);
	peer_put(server, 'S', "application_name\0", 18);
	peer_answer(server, "DISCARD ALL", 'I');
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	stage_free(&stage);
}

static void failed_reset_closes_the_server(void **state)
{
	(void)state;
	for (int how = 0; how < 3; how++) {
		struct stage *stage = stage_new("", "pool_mode = session\n");
		struct peer *client, *server;
		stage_pair(stage, &client, &server);
		peer_text(client, 'Q', "one");
		peer_hear(server, 'Q');
		peer_answer(server, "ONE", 'I');
		peer_hear(client, 'Z');
		peer_close(client);
		peer_hear(server, 'Q');
		if (how == 0)
			peer_answer(server, "DISCARD ALL", 'T');
		else if (how == 1)
			peer_put(server, '1', "", 0);
		else
			shutdown(server->fd, SHUT_WR);
		peer_last_words(server);
		stage_free(&stage);
	}
}

static void used_server_is_checked(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_new("", "server_check_query = select 1\nserver_check_delay = 0.01\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	while (!count(stage, SLOT_USED))
		stage_turn(stage);
	peer_text(client, 'Q', "mine");
	assert_string_equal(peer_hear(server, 'Q'), "Q:select 1");
	assert_string_equal(peer_heard(server), "");
	peer_answer(server, "SELECT 1", 'I');
	assert_string_equal(peer_hear(server, 'Q'), "Q:mine");
	peer_answer(server, "MINE", 'I');
	assert_string_equal(peer_hear(client, 'Z'), "C:MINE Z:I");
	stage_free(&stage);
}

/* A server that closes during its test does not close the waiting client. */
static void failed_check_costs_no_client(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1",
	    "server_check_query = select 1\nserver_check_delay = 0.01\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	while (!count(stage, SLOT_USED))
		stage_turn(stage);
	peer_text(client, 'Q', "mine");
	peer_hear(server, 'Q');
	peer_close(server);
	server = stage_ready_server(stage);
	assert_string_equal(peer_hear(server, 'Q'), "Q:mine");
	stage_free(&stage);
}

static void reconnect_waits_for_the_query(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "one");
	peer_hear(server, 'Q');
	catalog_mark_dirty(stage->site.catalog, NULL);
	stage_settle(stage);
	assert_false(server->has_ended);
	peer_answer(server, "ONE", 'I');
	assert_string_equal(peer_hear(client, 'Z'), "C:ONE Z:I");
	peer_last_words(server);
	stage_free(&stage);
}

/* Makes the only server look as if DNS had found its address for this name. */
static struct sock_addr call_server(struct stage *stage, const char *host)
{
	struct slot *slot = container_of(
	    list_first(&stage_pool(stage)->slots[SLOT_IDLE]), struct slot, node);
	struct server *server = slot_server(slot);

	mem_free(server->host);
	server->host = mem_strdup(host);
	assert_int_equal(sock_addr_parse("192.0.2.1", 0, &server->conn.remote), 0);
	return server->conn.remote;
}

static void address_that_is_lost_closes_its_servers(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	struct sock_addr addr, other;
	stage_pair(stage, &client, &server);
	addr = call_server(stage, "db.example");
	assert_int_equal(sock_addr_parse("192.0.2.2", 0, &other), 0);

	broker_lose_address(&stage->site, "db.example", &other);
	broker_lose_address(&stage->site, "db", &addr);
	stage_settle(stage);
	assert_false(server->has_ended);

	/* A server that runs a query finishes it. */
	peer_text(client, 'Q', "one");
	peer_hear(server, 'Q');
	broker_lose_address(&stage->site, "db.example", &addr);
	stage_settle(stage);
	assert_false(server->has_ended);
	peer_answer(server, "ONE", 'I');
	assert_string_equal(peer_hear(client, 'Z'), "C:ONE Z:I");
	peer_last_words(server);

	peer_text(client, 'Q', "two");
	server = stage_ready_server(stage);
	peer_hear(server, 'Q');
	peer_answer(server, "TWO", 'I');
	peer_hear(client, 'Z');
	addr = call_server(stage, "db.example");
	broker_lose_address(&stage->site, "db.example", &addr);
	peer_last_words(server);
	stage_free(&stage);
}

static void fast_close_ends_idle_sessions(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_new("", "pool_mode = session\nserver_fast_close = 1\n");
	struct peer *idle, *busy, *first, *second;
	stage_pair(stage, &idle, &first);
	peer_text(idle, 'Q', "one");
	peer_hear(first, 'Q');
	peer_answer(first, "ONE", 'I');
	peer_hear(idle, 'Z');
	busy = stage_login(stage, "u", NULL, NULL);
	peer_text(busy, 'Q', "two");
	second = stage_ready_server(stage);
	peer_hear(second, 'Q');
	catalog_mark_dirty(stage->site.catalog, NULL);
	assert_string_equal(
	    peer_last_words(idle), "E:FATAL:database configuration changed");
	peer_last_words(first);
	assert_false(second->has_ended);
	peer_answer(second, "TWO", 'I');
	assert_string_equal(
	    peer_last_words(busy), "C:TWO Z:I E:FATAL:database configuration changed");
	peer_last_words(second);
	stage_free(&stage);
}

/* One that has come with its client from another process, and exceeds a limit. */
static void fast_close_leaves_surplus_servers(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_new("", "pool_mode = session\nserver_fast_close = 1\n");
	struct peer *client, *server;

	stage_pair(stage, &client, &server);
	for (int i = 0; i < 2; i++) {
		peer_text(client, 'Q', "one");
		peer_hear(server, 'Q');
		struct slot *slot =
		    container_of(list_first(&stage_pool(stage)->slots[SLOT_ACTIVE]),
			struct slot, node);
		slot->dirty = DIRTY_SURPLUS;
		peer_answer(server, "ONE", 'I');
		peer_hear(client, 'Z');
		broker_schedule(stage_pool(stage));
		stage_settle(stage);
	}
	catalog_mark_dirty(stage->site.catalog, NULL);
	assert_string_equal(
	    peer_last_words(client), "E:FATAL:database configuration changed");
	peer_last_words(server);
	stage_free(&stage);
}

static void pause_closes_resting_servers_and_keeps_clients(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct catalog *catalog = stage->site.catalog;
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	catalog->paused = true;
	catalog_schedule_all(catalog, NULL);
	peer_last_words(server);
	peer_text(client, 'Q', "one");
	stage_settle(stage);
	assert_int_equal(stage->site.server_count, 0);
	catalog->paused = false;
	catalog_schedule_all(catalog, NULL);
	server = stage_ready_server(stage);
	assert_string_equal(peer_hear(server, 'Q'), "Q:one");
	stage_free(&stage);
}

static void kill_closes_everything(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *linked, *waiting, *resting, *server;
	stage_pair(stage, &linked, &server);
	waiting = stage_login(stage, "u", NULL, NULL);
	resting = stage_login(stage, "u", NULL, NULL);
	peer_text(linked, 'Q', "one");
	peer_hear(server, 'Q');
	peer_text(waiting, 'Q', "two");
	stage_settle(stage);
	catalog_kill(stage->site.catalog, NULL, "database removed");
	assert_string_equal(peer_last_words(linked), "E:FATAL:database removed");
	assert_string_equal(peer_last_words(waiting), "E:FATAL:database removed");
	assert_string_equal(peer_last_words(resting), "E:FATAL:database removed");
	peer_last_words(server);
	stage_settle(stage);
	assert_int_equal(stage->site.server_count, 0);
	assert_int_equal(site_client_count(&stage->site), 0);
	stage_free(&stage);
}

static void kill_reaches_a_dial(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client = stage_client(stage);
	peer_start(client, "u", "d", NULL, NULL);
	struct peer *server = stage_server(stage);
	peer_first_packet(server);
	/* the server's last message of the login comes in the same turn */
	peer_greet(server);
	catalog_kill(stage->site.catalog, NULL, "database removed");
	peer_last_words(client);
	peer_last_words(server);
	stage_free(&stage);
}

static void immediate_shutdown_says_nothing(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "one");
	peer_hear(server, 'Q');
	stage_drop_all(stage);
	stage_turn(stage);
	assert_true(stage_is_empty(stage));
	assert_string_equal(peer_last_words(client), "");
	assert_string_equal(peer_last_words(server), "");
	stage_free(&stage);
}

static void waiting_clients_are_told_at_a_shutdown(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *linked, *waiting, *server;
	stage_pair(stage, &linked, &server);
	waiting = stage_login(stage, "u", NULL, NULL);
	peer_text(linked, 'Q', "one");
	peer_hear(server, 'Q');
	peer_text(waiting, 'Q', "two");
	stage_settle(stage);
	stage->site.catalog->refuse_waiting = true;
	catalog_schedule_all(stage->site.catalog, NULL);
	assert_string_equal(peer_last_words(waiting), "E:FATAL:server shutting down");
	peer_answer(server, "ONE", 'I');
	peer_hear(linked, 'Z');
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(notification_at_rest_is_harmless),
	    cmocka_unit_test(role_that_changes_at_rest_is_noted),
	    cmocka_unit_test(dirty_server_is_closed),
	    cmocka_unit_test(part_of_a_message_at_rest_closes_the_server),
	    cmocka_unit_test(part_of_a_message_behind_an_answer_closes_the_server),
	    cmocka_unit_test(check_without_a_good_answer_closes_the_server),
	    cmocka_unit_test(server_is_reset_after_a_session),
	    cmocka_unit_test(failed_reset_closes_the_server),
	    cmocka_unit_test(used_server_is_checked),
	    cmocka_unit_test(failed_check_costs_no_client),
	    cmocka_unit_test(reconnect_waits_for_the_query),
	    cmocka_unit_test(address_that_is_lost_closes_its_servers),
	    cmocka_unit_test(fast_close_ends_idle_sessions),
	    cmocka_unit_test(fast_close_leaves_surplus_servers),
	    cmocka_unit_test(pause_closes_resting_servers_and_keeps_clients),
	    cmocka_unit_test(kill_closes_everything),
	    cmocka_unit_test(kill_reaches_a_dial),
	    cmocka_unit_test(immediate_shutdown_says_nothing),
	    cmocka_unit_test(waiting_clients_are_told_at_a_shutdown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
