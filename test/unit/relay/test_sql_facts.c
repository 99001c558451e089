/*
 * Texts of named statements: each is scanned once, however many names it gets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static size_t looked_at;

/* The scanner reports how many bytes it looks at. */
#define SQL_SCAN_LOOKED_AT(count) (looked_at += (size_t)(count))
#include "../../../src/wire/sql_hint.c"
#include "../../../src/wire/sql_scan.c"
#include "../stage/stage.h"
#include "relay/session_state.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_hears(peer, type, expected) \
	assert_string_equal(peer_hear(peer, type), expected)
#define assert_heard(peer, expected) assert_string_equal(peer_heard(peer), expected)

#define TEXT "values (pg_advisory_lock(1))"

/* Parse TEXT under a name of one letter, with Sync. */
static void prepare(struct peer *client, const char *name)
{
	char body[] = "?\0" TEXT "\0\0\0";

	body[0] = name[0];
	peer_put(client, 'P', body, sizeof(body) - 1);
	peer_put(client, 'S', NULL, 0);
}

static void first_prepare(struct peer *client, struct peer *server)
{
	prepare(client, "a");
	assert_hears(server, 'S', "P S");
	peer_put(server, '1', NULL, 0);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 Z:I");
}

/* The server has the statement already and gets only a Sync. */
static void prepare_again(struct peer *client, struct peer *server, const char *name)
{
	prepare(client, name);
	assert_hears(server, 'S', "S");
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 Z:I");
}

static uint64_t leaks_counted(struct stage *stage)
{
	const struct leak_row *row;
	uint64_t sum = 0;

	list_for (row, session_state_rows(stage->site.leak_table), node)
		sum += row->count;
	return sum;
}

static void run(struct peer *client, struct peer *server)
{
	peer_put(client, 'B', "\0b\0\0\0\0\0\0\0", 9);
	peer_put(client, 'E', "\0\0\0\0\0", 5);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "B E:: S");
	peer_put(server, '2', NULL, 0);
	peer_text(server, 'C', "SELECT 1");
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "2 C:SELECT 1 Z:I");
}

static void shared_text_is_looked_at_once(void **state)
{
	(void)state;
	struct peer *client, *server, *other;
	struct stage *stage = stage_new("pool_size=1", "");

	stage_pair(stage, &client, &server);
	looked_at = 0;
	first_prepare(client, server);
	assert_true(looked_at >= strlen(TEXT));
	looked_at = 0;
	prepare_again(client, server, "b");
	assert_int_equal(looked_at, 0);
	other = stage_login(stage, "u", NULL, NULL);
	prepare_again(other, server, "c");
	assert_int_equal(looked_at, 0);
	/* the result of the scan is known under the new name, too */
	run(client, server);
	assert_int_equal(leaks_counted(stage), 1);
	assert_int_equal(looked_at, 0);
	stage_free(&stage);
}

/* In session pooling the text is not scanned for session state. */
static void effects_of_a_shared_text_stay(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = stage_new("pool_size=1", "");

	stage_pair(stage, &client, &server);
	first_prepare(client, server);
	/* a session begins on a new server */
	stage_set(stage, "pool_mode", "session");
	prepare(client, "b");
	server = stage_ready_server(stage);
	assert_hears(server, 'S', "P S");
	peer_put(server, '1', NULL, 0);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 Z:I");
	stage_set(stage, "pool_mode", "transaction");
	run(client, server);
	assert_int_equal(leaks_counted(stage), 1);
	stage_free(&stage);
}

static const char no_escapes[] = "standard_conforming_strings\0off";

/* One query with a text under no name, whose answer may report a parameter. */
static void run_reporting(
    struct peer *client, struct peer *server, const char *text, bool reports)
{
	struct buf parse;

	buf_init(&parse, 0);
	buf_put_u8(&parse, 0);
	buf_put_str(&parse, text);
	buf_put_u16(&parse, 0);
	peer_put(client, 'P', parse.bytes, parse.len);
	buf_done(&parse);
	peer_put(client, 'B', "\0\0\0\0\0\0\0\0", 8);
	peer_put(client, 'E', "\0\0\0\0\0", 5);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "P B E:: S");
	peer_put(server, '1', NULL, 0);
	peer_put(server, '2', NULL, 0);
	if (reports)
		peer_put(server, 'S', no_escapes, sizeof(no_escapes));
	peer_text(server, 'C', "SELECT 1");
	peer_ready(server, 'I');
	peer_hear(client, 'Z');
}

static void run_unnamed(struct peer *client, struct peer *server, const char *text)
{
	run_reporting(client, server, text, false);
}

static size_t looked_at_in(struct peer *client, struct peer *server, const char *text)
{
	looked_at = 0;
	run_unnamed(client, server, text);
	return looked_at;
}

/* ... as long as it is read in the same way. */
static void unnamed_text_is_looked_at_once(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = stage_new("pool_size=1", "");

	stage_pair(stage, &client, &server);
	assert_true(looked_at_in(client, server, "select 1") > 0);
	assert_int_equal(looked_at_in(client, server, "select 1"), 0);
	assert_true(looked_at_in(client, server, "select 2") > 0);
	run_reporting(client, server, "select 2", true);
	assert_true(looked_at_in(client, server, "select 2") > 0);
	assert_int_equal(looked_at_in(client, server, "select 2"), 0);
	stage_set(stage, "track_sql_prepare", "1");
	assert_true(looked_at_in(client, server, "select 2") > 0);
	assert_int_equal(looked_at_in(client, server, "select 2"), 0);
	stage_free(&stage);
}

static const char failure[] = "SERROR\0C42P01\0Mno such table\0";

static void put_run(struct peer *client)
{
	peer_put(client, 'B', "\0\0\0\0\0\0\0\0", 8);
	peer_put(client, 'E', "\0\0\0\0\0", 5);
}

static void put_parse_and_run(struct peer *client)
{
	peer_put(client, 'P', "\0select 1\0\0\0", 12);
	put_run(client);
}

static void put_answers(struct peer *server)
{
	peer_put(server, '1', NULL, 0);
	peer_put(server, '2', NULL, 0);
	peer_text(server, 'C', "SELECT 1");
}

/* The client runs the statement without a Parse, and the server gets this for it. */
static void assert_brings(
    struct peer *client, struct peer *server, const char *to_server)
{
	put_run(client);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', to_server);
}

/* Two Parses of the text that the client has parsed before are in flight at once. */
static struct stage *parsed_twice(struct peer **client, struct peer **server)
{
	struct stage *stage = stage_new("pool_size=1", "");

	stage_pair(stage, client, server);
	run_unnamed(*client, *server, "select 1");
	put_parse_and_run(*client);
	put_parse_and_run(*client);
	peer_put(*client, 'S', NULL, 0);
	assert_hears(*server, 'S', "P B E:: P B E:: S");
	return stage;
}

static void same_parse_comes_twice_in_a_pipeline(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = parsed_twice(&client, &server);

	put_answers(server);
	put_answers(server);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 2 C:SELECT 1 1 2 C:SELECT 1 Z:I");
	assert_brings(client, server, "P B E:: S");
	put_answers(server);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "2 C:SELECT 1 Z:I");
	stage_free(&stage);
}

static void statement_is_kept_when_its_second_parse_is_skipped(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = parsed_twice(&client, &server);

	peer_put(server, '1', NULL, 0);
	peer_put(server, 'E', failure, sizeof(failure));
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 E:ERROR:no such table Z:I");
	assert_brings(client, server, "P B E:: S");
	stage_free(&stage);
}

static void statement_is_lost_when_its_parse_fails(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = parsed_twice(&client, &server);

	peer_put(server, 'E', failure, sizeof(failure));
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "E:ERROR:no such table Z:I");
	assert_brings(client, server, "C:S B E:: S");
	stage_free(&stage);
}

static void parse_behind_the_sync_succeeds_after_a_failure(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = parsed_twice(&client, &server);

	put_parse_and_run(client);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "P B E:: S");
	peer_put(server, 'E', failure, sizeof(failure));
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "E:ERROR:no such table Z:I");
	put_answers(server);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 2 C:SELECT 1 Z:I");
	assert_brings(client, server, "P B E:: S");
	stage_free(&stage);
}

static void what_an_unnamed_text_leaves_is_counted_each_time(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = stage_new("pool_size=1", "server_reset_query =");

	stage_pair(stage, &client, &server);
	run_unnamed(client, server, TEXT);
	assert_int_equal(leaks_counted(stage), 1);
	run_unnamed(client, server, TEXT);
	assert_int_equal(leaks_counted(stage), 2);
	stage_free(&stage);
}

enum { LONG = 8 * 1024 * 1024, FIRST = LONG / 2 };

static bool has_most_of_it(void *arg)
{
	const struct peer *server = arg;

	return server->in.len >= FIRST;
}

/* A text of more than 2 MB is not gathered: the server gets the first half of it before
 * the client sends the second. */
static void long_text_goes_on_as_it_arrives(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = stage_new("pool_size=1", "");
	uint8_t *parse = mem_zero(LONG);

	stage_pair(stage, &client, &server);
	memset(parse, 'x', LONG);
	memcpy(parse,
	    "P\0\x7f\xff\xff"
	    "a",
	    7); /* LONG counts the type byte */
	memset(parse + LONG - 3, 0, 3);
	peer_send(client, parse, FIRST + 4096);
	stage_until(stage, has_most_of_it, server);
	peer_send(client, parse + FIRST + 4096, LONG - FIRST - 4096);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "P S");
	peer_put(server, '1', NULL, 0);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 Z:I");
	mem_free(parse);
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(shared_text_is_looked_at_once),
	    cmocka_unit_test(effects_of_a_shared_text_stay),
	    cmocka_unit_test(unnamed_text_is_looked_at_once),
	    cmocka_unit_test(same_parse_comes_twice_in_a_pipeline),
	    cmocka_unit_test(statement_is_kept_when_its_second_parse_is_skipped),
	    cmocka_unit_test(statement_is_lost_when_its_parse_fails),
	    cmocka_unit_test(parse_behind_the_sync_succeeds_after_a_failure),
	    cmocka_unit_test(what_an_unnamed_text_leaves_is_counted_each_time),
	    cmocka_unit_test(long_text_goes_on_as_it_arrives),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
