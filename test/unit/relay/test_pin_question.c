/*
 * session_state=keep: what servers are asked after a transaction, and what follows from
 * their answers, of whatever kind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"
#include "pool/pins.h"
#include "relay/session_state.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define KEEP "session_state = keep\n"

static struct peer *client, *server;

static struct stage *begin(const char *options, const char *settings)
{
	struct stage *stage = stage_new(options, settings);

	stage_pair(stage, &client, &server);
	return stage;
}

/* The client runs this, and the server has completed it. */
static void run(const char *sql, const char *tag)
{
	peer_text(client, 'Q', sql);
	peer_hear(server, 'Q');
	peer_answer(server, tag, 'I');
}

/* Waits for the question, and answers it with these rows, or with this error. */
static void answer(const char *const rows[], size_t count, const char *error)
{
	static const char *const types[] = {"3", "3", "1", "2"};

	peer_hear(server, 'S');
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		peer_put(server, (uint8_t)*types[i], "", 0);
	for (size_t i = 0; i < count; i++) {
		/* behind a '=' stands the value of a setting */
		const char *value = strchr(rows[i], '=');
		size_t len = value ? (size_t)(value - rows[i]) : strlen(rows[i]);
		size_t value_len = value ? strlen(value + 1) : 0;
		uint8_t row[256] = {0, 2, 0, 0, 0, (uint8_t)len};
		memcpy(row + 6, rows[i], len);
		memset(row + 6 + len, value ? 0 : 0xff, 4);
		if (value) {
			row[6 + len + 3] = (uint8_t)value_len;
			memcpy(row + 6 + len + 4, value + 1, value_len);
		}
		peer_put(server, 'D', row, 6 + len + 4 + value_len);
	}
	if (error) {
		char fields[64];
		int len = snprintf(
		    fields, sizeof(fields), "SERROR%cC%s%cMno%c%c", 0, error, 0, 0, 0);
		peer_put(server, 'E', fields, (size_t)len);
	} else {
		peer_text(server, 'C', "SELECT");
		peer_put(server, '3', "", 0);
		peer_put(server, '3', "", 0);
	}
	peer_ready(server, 'I');
}

static void answer_one(const char *row)
{
	answer(&row, row != NULL, NULL);
}

static bool is_pinned(struct stage *stage)
{
	return pins_count(stage_pool(stage)) == 1;
}

static void server_stays_while_something_is_left(void **state)
{
	(void)state;
	struct stage *stage = begin("pool_size=2", KEEP);
	run("create temp table a (a int)", "CREATE TABLE");
	answer_one("t");
	assert_string_equal(peer_hear(client, 'Z'), "C:CREATE TABLE Z:I");
	assert_true(is_pinned(stage));
	/* a query that ends nothing is not followed by a question */
	run("select 1", "SELECT 1");
	peer_hear(client, 'Z');
	assert_string_equal(peer_heard(server), "");
	run("drop table a", "DROP TABLE");
	answer_one(NULL);
	peer_hear(client, 'Z');
	assert_false(is_pinned(stage));
	run("select 1", "SELECT 1");
	assert_string_equal(peer_hear(client, 'Z'), "C:SELECT 1 Z:I");
	stage_free(&stage);
}

static void nothing_is_asked_without_need(void **state)
{
	static const char *const texts[] = {"select count(*) from t",
	    "insert into t (a) values (lower('X'))", "set timezone = 'UTC'", "begin"};

	(void)state;
	struct stage *stage = begin("pool_size=2", KEEP);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		run(texts[i], "SELECT 1");
		peer_hear(client, 'Z');
		assert_string_equal(peer_heard(server), "");
	}
	stage_free(&stage);
}

static void other_settings_ask_nothing(void **state)
{
	static const char *const settings[] = {"", "session_state = clean\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		struct stage *stage = begin("pool_size=2", settings[i]);
		run("select f()", "SELECT 1");
		peer_hear(client, 'Z');
		assert_string_equal(peer_heard(server), "");
		stage_free(&stage);
	}
}

static void nonsense_ends_the_connection(void **state)
{
	static const char *const rows[] = {"", "x", "tt", "=", "x=61", "l"};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct stage *stage = begin("pool_size=2", KEEP);
		run("create temp table a (a int) on commit preserve rows; set a.b = 1; "
		    "declare c cursor with hold for select 1",
		    "CREATE TABLE");
		if (rows[i][0] != 'l') {
			answer_one(rows[i]);
		} else {
			/* one column */
			peer_hear(server, 'S');
			for (const char *type = "3312"; *type; type++)
				peer_put(server, (uint8_t)*type, "", 0);
			peer_put(server, 'D', "\0\1\0\0\0\1t", 7);
			peer_text(server, 'C', "SELECT");
			peer_put(server, '3', "", 0);
			peer_put(server, '3', "", 0);
			peer_ready(server, 'I');
		}
		assert_non_null(strstr(peer_last_words(client),
		    "E:FATAL:the server did not tell what is left in its session"));
		assert_string_equal(peer_last_words(server), "X");
		assert_int_equal(pins_count(stage_pool(stage)), 0);
		stage_free(&stage);
	}
}

static void error_ends_the_connection(void **state)
{
	(void)state;
	struct stage *stage = begin("pool_size=2", KEEP);
	run("create temp table a (a int)", "CREATE TABLE");
	answer(NULL, 0, "42501");
	assert_non_null(strstr(peer_last_words(client),
	    "E:FATAL:the server did not tell what is left in its session"));
	stage_free(&stage);
}

/* A cancel request for the client's query may reach the question. */
static void cancelled_question_is_asked_again(void **state)
{
	(void)state;
	struct stage *stage = begin("pool_size=2", KEEP);
	run("create temp table a (a int)", "CREATE TABLE");
	for (int i = 1; i < OWN_ATTEMPTS_MOST; i++)
		answer(NULL, 0, "57014");
	answer_one("t");
	assert_string_equal(peer_hear(client, 'Z'), "C:CREATE TABLE Z:I");
	assert_true(is_pinned(stage));
	run("drop table a", "DROP TABLE");
	for (int i = 0; i < OWN_ATTEMPTS_MOST; i++)
		answer(NULL, 0, "57014");
	peer_last_words(client);
	stage_free(&stage);
}

static void limit_is_told_at_the_end(void **state)
{
	(void)state;
	struct stage *stage =
	    begin("pool_size=1", KEEP "server_reset_query = clean it\n");
	run("select f()", "SELECT 1");
	answer_one("a");
	assert_string_equal(peer_hear(client, 'Z'),
	    "C:SELECT 1 E:ERROR:advisory lock would keep a server connection, of which "
	    "no more may be kept (max_pinned_servers) Z:I");
	assert_string_equal(peer_hear(server, 'Q'), "Q:clean it");
	assert_false(is_pinned(stage));
	stage_free(&stage);
}

static void server_is_cleaned_when_its_client_leaves(void **state)
{
	(void)state;
	struct stage *stage =
	    begin("pool_size=2", KEEP "server_reset_query = clean it\n");
	run("create temp table a (a int)", "CREATE TABLE");
	answer_one("t");
	peer_hear(client, 'Z');
	peer_close(client);
	assert_string_equal(peer_hear(server, 'Q'), "Q:clean it");
	assert_false(is_pinned(stage));
	stage_free(&stage);
}

static void messages_behind_it_wait_for_the_answer(void **state)
{
	(void)state;
	struct stage *stage = begin("pool_size=2", KEEP);
	run("create temp table a (a int)", "CREATE TABLE");
	peer_hear(server, 'S');
	peer_text(client, 'Q', "select 1");
	stage_settle(stage);
	assert_string_equal(peer_heard(server), "");
	assert_string_equal(peer_heard(client), "C:CREATE TABLE");
	for (const char *type = "3312"; *type; type++)
		peer_put(server, (uint8_t)*type, "", 0);
	peer_text(server, 'C', "SELECT");
	peer_put(server, '3', "", 0);
	peer_put(server, '3', "", 0);
	peer_ready(server, 'I');
	assert_string_equal(peer_hear(server, 'Q'), "Q:select 1");
	assert_string_equal(peer_hear(client, 'Z'), "Z:I");
	peer_answer(server, "SELECT 1", 'I');
	assert_string_equal(peer_hear(client, 'Z'), "C:SELECT 1 Z:I");
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(server_stays_while_something_is_left),
	    cmocka_unit_test(nothing_is_asked_without_need),
	    cmocka_unit_test(other_settings_ask_nothing),
	    cmocka_unit_test(nonsense_ends_the_connection),
	    cmocka_unit_test(error_ends_the_connection),
	    cmocka_unit_test(cancelled_question_is_asked_again),
	    cmocka_unit_test(limit_is_told_at_the_end),
	    cmocka_unit_test(server_is_cleaned_when_its_client_leaves),
	    cmocka_unit_test(messages_behind_it_wait_for_the_answer),
	};
	return stage_run_twice(tests);
}
