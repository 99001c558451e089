/*
 * Session state that clients leave behind on servers: counted, cleaned, refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"
#include "relay/session_state.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_hears(peer, type, expected) \
	assert_string_equal(peer_hear(peer, type), expected)
#define REPLACEMENT "SELECT \"refused by the pooler: session_state\""
#define REFUSAL(what)                                                      \
	"E:ERROR:" what                                                    \
	" is refused: it would change the session of a server connection " \
	"that is shared (session_state)"

static const struct leak_row *last_leak(struct stage *stage)
{
	const struct list *rows = session_state_rows(stage->site.leak_table);
	return rows->count ? container_of(list_first(rows), struct leak_row, node)
			   : NULL;
}

static uint64_t counted(struct stage *stage, enum leak_kind kind)
{
	const struct leak_row *row;
	uint64_t sum = 0;
	list_for (row, session_state_rows(stage->site.leak_table), node)
		if (row->kind == kind)
			sum += row->count;
	return sum;
}

/* The server answers this query of the client, and is given back. */
static void run(
    struct peer *client, struct peer *server, const char *sql, const char *tag)
{
	char sent[512];
	snprintf(sent, sizeof(sent), "Q:%s", sql);
	peer_text(client, 'Q', sql);
	assert_hears(server, 'Q', sent);
	peer_answer(server, tag, 'I');
	peer_hear(client, 'Z');
}

static void leaks_are_counted_and_forwarded(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	run(client, server, "set work_mem = 1", "SET");
	run(client, server, "set work_mem = 2", "SET");
	run(client, server, "set local work_mem = 1", "SET");
	run(client, server, "select pg_advisory_lock(1)", "SELECT 1");
	run(client, server, "select 1", "SELECT 1");
	assert_int_equal(counted(stage, LEAK_SET), 2);
	assert_int_equal(counted(stage, LEAK_ADVISORY), 1);
	assert_int_equal(session_state_rows(stage->site.leak_table)->count, 2);
	assert_string_equal(last_leak(stage)->database, "d");
	assert_string_equal(last_leak(stage)->user, "u");
	assert_string_equal(last_leak(stage)->application_name, "");
	assert_int_equal(last_leak(stage)->kind, LEAK_ADVISORY);
	stage_free(&stage);
}

static void statement_that_failed_leaves_nothing(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "session_state = clean\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "listen x");
	peer_hear(server, 'Q');
	peer_put(server, 'E', "SERROR\0Mno\0", 12);
	peer_ready(server, 'I');
	peer_hear(client, 'Z');
	run(client, server, "select 1", "SELECT 1");
	assert_null(last_leak(stage));
	stage_free(&stage);
}

static void server_is_cleaned_once_per_leak(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_new("pool_size=1", "session_state = clean\n"
				     "server_reset_query = clean it\n");
	struct peer *client, *server, *other;
	stage_pair(stage, &client, &server);
	run(client, server, "select 1", "SELECT 1");
	other = stage_login(stage, "u", NULL, NULL);
	peer_text(client, 'Q', "listen x");
	assert_hears(server, 'Q', "Q:listen x");
	peer_text(other, 'Q', "of the other");
	peer_answer(server, "LISTEN", 'I');
	assert_hears(server, 'Q', "Q:clean it");
	assert_hears(client, 'Z', "C:LISTEN Z:I");
	stage_settle(stage);
	assert_int_equal(server->in.len, 0); /* nothing of the other client yet */
	peer_answer(server, "OK", 'I');
	assert_hears(server, 'Q', "Q:of the other");
	peer_answer(server, "SELECT 1", 'I');
	assert_hears(other, 'Z', "C:SELECT 1 Z:I");
	run(client, server, "select 2", "SELECT 1");
	assert_int_equal(counted(stage, LEAK_LISTEN), 1);
	stage_free(&stage);
}

static void what_is_gone_needs_no_cleaning(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_new("pool_size=1", "session_state = clean\n"
				     "server_reset_query = clean it\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "begin; listen x; set work_mem = 1; unlisten *");
	peer_hear(server, 'Q');
	peer_text(server, 'C', "BEGIN");
	peer_text(server, 'C', "LISTEN");
	peer_text(server, 'C', "SET");
	peer_answer(server, "UNLISTEN", 'T');
	peer_hear(client, 'Z');
	run(client, server, "discard all", "DISCARD ALL");
	run(client, server, "select 1", "SELECT 1");
	assert_int_equal(counted(stage, LEAK_LISTEN), 1);
	assert_int_equal(counted(stage, LEAK_SET), 1);
	stage_free(&stage);
}

static void without_reset_query_the_server_is_closed(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "session_state = clean\n"
						       "server_reset_query =\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	run(client, server, "load 'x'", "LOAD");
	assert_string_equal(peer_last_words(server), "X");
	stage_free(&stage);
}

static void refused_query_fails_as_the_server_has_it(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "session_state = refuse\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	run(client, server, "set local work_mem = 1", "SET");
	peer_text(client, 'Q', "listen x");
	assert_hears(server, 'Q', "Q:" REPLACEMENT);
	peer_put(server, 'E', "SERROR\0C42703\0Mno\0", 19);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', REFUSAL("LISTEN") " Z:I");
	/* the server itself reports a transaction that has failed already */
	peer_text(client, 'Q', "listen x");
	assert_hears(server, 'Q', "Q:" REPLACEMENT);
	peer_put(server, 'E', "SERROR\0C25P02\0Mfailed\0", 23);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "E:ERROR:failed Z:I");
	run(client, server, "select 1", "SELECT 1");
	assert_int_equal(counted(stage, LEAK_LISTEN), 2);
	stage_free(&stage);
}

static void refused_parse_keeps_its_place(void **state)
{
	(void)state;
	static const char leaking[] = "s\0listen x\0\0";
	static const char bind[] = "\0s\0\0\0\0\0\0";
	struct stage *stage = stage_new("pool_size=1", "session_state = refuse\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_put(client, 'P', leaking, sizeof(leaking));
	peer_put(client, 'B', bind, sizeof(bind));
	peer_put(client, 'S', "", 0);
	peer_hear(server, 'S');
	peer_put(server, 'E', "SERROR\0C42703\0Mno\0", 19);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', REFUSAL("LISTEN") " Z:I");
	run(client, server, "select 1", "SELECT 1");
	stage_free(&stage);
}

/* State that was not known beforehand is cleaned in this mode, too. */
static void refuse_cleans_what_it_did_not_see(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_new("pool_size=1", "session_state = refuse\n"
				     "server_reset_query = clean it\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "select 1; listen x");
	peer_hear(server, 'Q');
	peer_text(server, 'C', "SELECT 1");
	peer_answer(server, "LISTEN", 'I');
	assert_hears(server, 'Q', "Q:clean it");
	peer_answer(server, "OK", 'I');
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void database_is_before_the_setting(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_new("pool_size=1 session_state=forward", "session_state = refuse\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	run(client, server, "listen x", "LISTEN");
	run(client, server, "select 1", "SELECT 1");
	stage_free(&stage);
}

static void session_mode_is_left_alone(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_new("pool_size=1", "session_state = refuse\npool_mode = session\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	run(client, server, "listen x", "LISTEN");
	run(client, server, "set work_mem = 1", "SET");
	assert_null(last_leak(stage));
	stage_free(&stage);
}

/* The Query is split at every byte. */
static void refused_byte_by_byte(void **state)
{
	(void)state;
	static const uint8_t query[] = {
	    'Q', 0, 0, 0, 13, 'l', 'i', 's', 't', 'e', 'n', ' ', 'x', 0};
	struct stage *stage = stage_new("pool_size=1", "session_state = refuse\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	for (size_t i = 0; i < sizeof(query); i++) {
		peer_send(client, query + i, 1);
		stage_settle(stage);
	}
	assert_hears(server, 'Q', "Q:" REPLACEMENT);
	peer_put(server, 'E', "SERROR\0C42703\0Mno\0", 19);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', REFUSAL("LISTEN") " Z:I");
	assert_int_equal(counted(stage, LEAK_LISTEN), 1);
	stage_free(&stage);
}

static void oldest_rows_are_forgotten(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	for (int i = 0; i < LEAK_ROWS_MAX + 10; i++) {
		char name[40] = "application_name", report[64];
		size_t len = strlen(name) + 1;
		memcpy(report, name, len);
		len += (size_t)snprintf(report + len, 20, "n%d", i) + 1;
		peer_text(client, 'Q', "listen x");
		peer_hear(server, 'Q');
		peer_put(server, 'S', report, len);
		peer_answer(server, "LISTEN", 'I');
		peer_hear(client, 'Z');
	}
	assert_int_equal(
	    session_state_rows(stage->site.leak_table)->count, LEAK_ROWS_MAX);
	assert_string_equal(last_leak(stage)->application_name, "n1009");
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(leaks_are_counted_and_forwarded),
	    cmocka_unit_test(statement_that_failed_leaves_nothing),
	    cmocka_unit_test(server_is_cleaned_once_per_leak),
	    cmocka_unit_test(what_is_gone_needs_no_cleaning),
	    cmocka_unit_test(without_reset_query_the_server_is_closed),
	    cmocka_unit_test(refused_query_fails_as_the_server_has_it),
	    cmocka_unit_test(refused_parse_keeps_its_place),
	    cmocka_unit_test(refuse_cleans_what_it_did_not_see),
	    cmocka_unit_test(database_is_before_the_setting),
	    cmocka_unit_test(session_mode_is_left_alone),
	    cmocka_unit_test(refused_byte_by_byte),
	    cmocka_unit_test(oldest_rows_are_forgotten),
	};
	return stage_run_twice(tests);
}
