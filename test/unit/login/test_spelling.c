/*
 * Values of startup packets: when a server is asked what it makes of them, and what
 * clients are told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../stage/stage.h"
#include "pool/pool.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_hears(peer, type, text) assert_string_equal(peer_hear(peer, type), text)

static struct peer *come(struct stage *stage, const char *name, const char *value)
{
	struct peer *client = stage_client(stage);

	peer_start(client, "u", "d", name, value);
	stage_settle(stage);
	return client;
}

static void report(struct peer *server, const char *name, const char *value)
{
	struct buf status;

	buf_init(&status, 0);
	codec_put_parameter_status(&status, name, value);
	peer_send(server, status.bytes, status.len);
	buf_done(&status);
}

static void answer(struct peer *server, const char *name, const char *value)
{
	report(server, name, value);
	peer_answer(server, "SET", 'I');
	stage_settle(server->stage);
}

/* Has it got a ParameterStatus with this value, and ReadyForQuery? */
static bool is_told(const struct peer *client, const char *name, const char *value)
{
	char text[100];
	int len = snprintf(text, sizeof(text), "%s%c%s", name, '\0', value);

	return client->in.len > 6 &&
	       memmem(client->in.bytes, client->in.len, text, (size_t)len + 1) &&
	       memcmp(client->in.bytes + client->in.len - 6, "Z\0\0\0\5I", 6) == 0;
}

static bool has_heard_nothing(const struct peer *client)
{
	/* AuthenticationOk comes with the rest */
	return client->in.len == 0;
}

static int idle(struct stage *stage)
{
	return (int)stage_pool(stage)->slots[SLOT_IDLE].count;
}

static void only_the_first_client_needs_a_server(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *first, *server, *client;

	stage_pair(stage, &first, &server);
	client = come(stage, "DateStyle", "sql");
	assert_true(has_heard_nothing(client));
	assert_hears(server, 'Q', "Q:SET DateStyle='sql';");
	answer(server, "DateStyle", "SQL, MDY");
	assert_true(is_told(client, "DateStyle", "SQL, MDY"));
	assert_int_equal(idle(stage), 1);
	/* its first query finds the value on the server */
	buf_clear(&client->in);
	peer_text(client, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:select 1");
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
	assert_true(is_told(come(stage, "DateStyle", "sql"), "DateStyle", "SQL, MDY"));
	assert_string_equal(peer_heard(server), "");
	stage_free(&stage);
}

static void usual_values_need_no_server(void **state)
{
	static const struct {
		const char *name, *asked, *told;
	} cases[] = {
	    {"TimeZone", "UTC", "UTC"},
	    {"TimeZone", "utc", "UTC"},
	    {"client_encoding", "utf8", "UTF8"},
	    {"DateStyle", "iso", "ISO"},
	    {"application_name", "Mine", "Mine"},
	    {"application_name", "na\xc3\xafve\t", "na??ve?"},
	};
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *first, *server;

	stage_pair(stage, &first, &server);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_true(is_told(come(stage, cases[i].name, cases[i].asked),
		    cases[i].name, cases[i].told));
	assert_string_equal(peer_heard(server), "");
	stage_free(&stage);
}

/* The rest of a value is the server's own, whoever had the server before. */
static void the_rest_is_not_of_another_client(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *first, *server, *client;

	stage_pair(stage, &first, &server);
	peer_text(first, 'Q', "set datestyle to dmy");
	peer_hear(server, 'Q');
	answer(server, "DateStyle", "ISO, DMY");
	client = come(stage, "DateStyle", "sql");
	assert_hears(server, 'Q', "Q:SET DateStyle='ISO';SET DateStyle='sql';");
	answer(server, "DateStyle", "SQL, MDY");
	assert_true(is_told(client, "DateStyle", "SQL, MDY"));
	peer_hear(first, 'Z');
	peer_text(first, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:SET DateStyle='ISO, DMY';");
	answer(server, "DateStyle", "ISO, DMY");
	peer_answer(server, "SELECT 1", 'I');
	stage_free(&stage);
}

/* What equals the server's own value is reset, so that the server goes on following its
 * configuration. */
static void own_values_are_not_pinned(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *first, *server, *client;

	stage_pair(stage, &first, &server);
	client = come(stage, "client_encoding", "utf-8");
	assert_hears(server, 'Q', "Q:SET client_encoding='utf-8';");
	peer_answer(server, "SET", 'I');
	stage_settle(stage);
	assert_hears(server, 'Q', "Q:RESET client_encoding;");
	assert_int_equal(idle(stage), 0);
	answer(server, "client_encoding", "LATIN1");
	assert_int_equal(idle(stage), 1);
	assert_true(is_told(client, "client_encoding", "UTF8"));
	/* the configuration has changed meanwhile */
	assert_true(is_told(come(stage, NULL, NULL), "client_encoding", "LATIN1"));
	stage_free(&stage);
}

static void wrong_values_cost_no_server(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *first, *server, *client;

	stage_pair(stage, &first, &server);
	for (int i = 0; i < 3; i++) {
		client = come(stage, "TimeZone", "nowhere");
		assert_hears(server, 'Q', "Q:SET TimeZone='nowhere';");
		peer_put(server, 'E', "SERROR\0C22023\0Mno such zone\0", 29);
		peer_ready(server, 'I');
		assert_string_equal(
		    peer_last_words(client), "E:FATAL:invalid server parameter");
		assert_int_equal(idle(stage), 1);
	}
	stage_free(&stage);
}

static void vanished_clients_cost_no_server(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *first, *server, *client;

	stage_pair(stage, &first, &server);
	client = come(stage, "TimeZone", "cet");
	peer_hear(server, 'Q');
	/* this one still waits for the server */
	peer_close(come(stage, "TimeZone", "est"));
	peer_close(client);
	stage_settle(stage);
	answer(server, "TimeZone", "CET");
	assert_int_equal(idle(stage), 1);
	assert_true(is_told(come(stage, "TimeZone", "cet"), "TimeZone", "CET"));
	stage_free(&stage);
}

static void another_server_is_asked(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "server_login_retry = 0\n");
	struct peer *first, *server, *client;

	stage_pair(stage, &first, &server);
	client = come(stage, "TimeZone", "cet");
	peer_hear(server, 'Q');
	peer_close(server);
	server = stage_ready_server(stage);
	assert_hears(server, 'Q', "Q:SET TimeZone='cet';");
	answer(server, "TimeZone", "CET");
	assert_true(is_told(client, "TimeZone", "CET"));
	stage_free(&stage);
}

static void a_wait_is_limited(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "query_wait_timeout = 0.2\n");
	struct peer *first, *server, *client;

	stage_pair(stage, &first, &server);
	peer_text(first, 'Q', "begin");
	peer_hear(server, 'Q');
	peer_answer(server, "BEGIN", 'T');
	peer_hear(first, 'Z');
	client = come(stage, "TimeZone", "cet");
	assert_string_equal(peer_last_words(client), "E:FATAL:query_wait_timeout");
	stage_free(&stage);
}

/* RECONNECT comes while a server is asked: the client is greeted with what the next one
 * reports. */
static void the_greeting_is_forgotten_meanwhile(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *first, *server, *client;

	stage_pair(stage, &first, &server);
	client = come(stage, "TimeZone", "cet");
	assert_hears(server, 'Q', "Q:SET TimeZone='cet';");
	catalog_mark_dirty(stage->site.catalog, NULL);
	answer(server, "TimeZone", "CET");
	assert_true(has_heard_nothing(client));
	server = stage_ready_server(stage);
	stage_settle(stage);
	/* the new one may make something else of the value */
	assert_hears(server, 'Q', "Q:SET TimeZone='CET';");
	answer(server, "TimeZone", "CET");
	assert_true(is_told(client, "TimeZone", "CET"));
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_the_first_client_needs_a_server),
	    cmocka_unit_test(usual_values_need_no_server),
	    cmocka_unit_test(the_rest_is_not_of_another_client),
	    cmocka_unit_test(own_values_are_not_pinned),
	    cmocka_unit_test(wrong_values_cost_no_server),
	    cmocka_unit_test(vanished_clients_cost_no_server),
	    cmocka_unit_test(another_server_is_asked),
	    cmocka_unit_test(a_wait_is_limited),
	    cmocka_unit_test(the_greeting_is_forgotten_meanwhile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
