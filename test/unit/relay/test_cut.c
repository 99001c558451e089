/*
 * Answers to what the pooler itself has asked are read whole, in pieces of any size:
 * what a server has forgotten, kept or reported is known afterwards, and the next
 * client is told as if each message had come at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_hears(peer, type, expected) \
	assert_string_equal(peer_hear(peer, type), expected)

enum { PIECE_MOST = 24 };

/* ---- peers ---- */

static void parse(struct peer *client)
{
	peer_put(client, 'P', "s\0select 1\0\0\0", 13);
	peer_put(client, 'S', NULL, 0);
}

static void parsed(struct peer *server)
{
	peer_put(server, '1', NULL, 0);
	peer_ready(server, 'I');
}

/* A client prepares a statement on the only server, which knows it from then on. */
static struct stage *prepared(
    const char *settings, struct peer **client, struct peer **server)
{
	struct stage *stage =
	    stage_new("pool_size=1 client_disconnect=cancel", settings);

	stage_pair(stage, client, server);
	parse(*client);
	assert_hears(*server, 'S', "P S");
	parsed(*server);
	return stage;
}

static void assert_forgotten(struct stage *stage, struct peer *server)
{
	struct peer *next = stage_login(stage, "u", NULL, NULL);

	parse(next);
	assert_hears(server, 'S', "P S");
	parsed(server);
	peer_hear(next, 'Z');
}

/* ---- what a vanished client and a reset leave ---- */

static void begin_and_vanish(struct peer *client, struct peer *server)
{
	assert_hears(client, 'Z', "1 Z:I");
	peer_text(client, 'Q', "begin");
	peer_hear(server, 'Q');
	peer_answer(server, "BEGIN", 'T');
	peer_hear(client, 'Z');
	peer_close(client);
}

static void clean_up_after_a_vanished_client(void)
{
	struct peer *client, *server;
	struct stage *stage = prepared(
	    "server_reset_query =\nsession_state = forward\n", &client, &server);

	begin_and_vanish(client, server);
	assert_hears(server, 'Q', "Q:ROLLBACK; DEALLOCATE ALL");
	peer_text(server, 'C', "ROLLBACK");
	peer_answer(server, "DEALLOCATE ALL", 'I');
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->slots[SLOT_IDLE].count, 1);
	assert_forgotten(stage, server);
	stage_free(&stage);
}

static void reset_query(void)
{
	struct peer *client, *server;
	struct stage *stage =
	    prepared("server_reset_query_always = 1\n", &client, &server);

	assert_hears(server, 'Q', "Q:DISCARD ALL");
	peer_put(server, 'S', "application_name\0", 18);
	peer_answer(server, "DISCARD ALL", 'I');
	assert_hears(client, 'Z', "1 Z:I");
	assert_forgotten(stage, server);
	stage_free(&stage);
}

static void reset_query_that_fails(void)
{
	struct peer *client, *server;
	struct stage *stage =
	    prepared("server_reset_query_always = 1\n", &client, &server);

	assert_hears(server, 'Q', "Q:DISCARD ALL");
	peer_put(server, 'E', "SERROR\0C57014\0Mcanceling\0", 26);
	peer_ready(server, 'E');
	assert_string_equal(peer_last_words(server), "X");
	stage_free(&stage);
}

static void check_query(void)
{
	struct peer *client, *server;
	struct stage *stage =
	    prepared("server_check_query = select 1\n", &client, &server);

	peer_hear(client, 'Z');
	/* only now, for the next rest: on a busy machine the server would need a check
	 * too early */
	stage_set(stage, "server_check_delay", "0.01");
	peer_text(client, 'Q', "first");
	assert_hears(server, 'Q', "Q:first");
	peer_answer(server, "FIRST", 'I');
	assert_hears(client, 'Z', "C:FIRST Z:I");
	while (!stage_pool(stage)->slots[SLOT_USED].count)
		stage_turn(stage);
	peer_text(client, 'Q', "next");
	assert_hears(server, 'Q', "Q:select 1");
	peer_put(server, 'T', "\0\1?column?\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 29);
	peer_put(server, 'D',
	    "\0\1\0\0\0\1"
	    "1",
	    7);
	peer_answer(server, "SELECT 1", 'I');
	assert_hears(server, 'Q', "Q:next");
	peer_answer(server, "NEXT", 'I');
	assert_hears(client, 'Z', "C:NEXT Z:I");
	stage_free(&stage);
}

/* ---- parameters ---- */

static void parameters_of_the_next_client(void)
{
	struct peer *client, *server, *named;
	struct stage *stage = prepared("", &client, &server);

	peer_hear(client, 'Z');
	named = stage_login(stage, "u", "application_name", "it's b");
	peer_text(named, 'Q', "one");
	assert_hears(server, 'Q', "Q:SET application_name='it''s b';");
	peer_put(server, 'S', "application_name\0it's b", 24);
	peer_answer(server, "SET", 'I');
	assert_hears(server, 'Q', "Q:one");
	peer_answer(server, "ONE", 'I');
	assert_hears(named, 'Z', "C:ONE Z:I");
	/* the report was read: it has to be undone for the other client */
	peer_text(client, 'Q', "two");
	assert_hears(server, 'Q', "Q:RESET application_name;");
	peer_put(server, 'S', "application_name\0", 18);
	peer_answer(server, "RESET", 'I');
	assert_hears(server, 'Q', "Q:two");
	peer_answer(server, "TWO", 'I');
	assert_hears(client, 'Z', "C:TWO Z:I");
	stage_free(&stage);
}

static void refuse(struct peer *server)
{
	peer_put(server, 'E', "SERROR\0C22023\0Mno such zone\0", 29);
	peer_ready(server, 'I');
}

static struct peer *start_with_zone(struct stage *stage, struct peer *server)
{
	struct peer *named = stage_client(stage);

	peer_start(named, "u", "d", "timezone", "nowhere");
	assert_hears(server, 'Q', "Q:SET TimeZone='nowhere';");
	return named;
}

static void refused_startup_parameter(void)
{
	struct peer *client, *server, *named;
	struct stage *stage = prepared("", &client, &server);

	peer_hear(client, 'Z');
	named = start_with_zone(stage, server);
	refuse(server);
	assert_string_equal(peer_last_words(named), "E:FATAL:invalid server parameter");
	stage_free(&stage);
}

/* The value was good when the client logged in. */
static void refused_parameter(void)
{
	struct peer *client, *server, *named;
	struct stage *stage = prepared("", &client, &server);

	peer_hear(client, 'Z');
	named = start_with_zone(stage, server);
	peer_put(server, 'S', "TimeZone\0Nowhere", 17);
	peer_answer(server, "SET", 'I');
	peer_hear(named, 'Z');
	peer_text(client, 'Q', "two");
	assert_hears(server, 'Q', "Q:RESET TimeZone;");
	peer_put(server, 'S', "TimeZone\0UTC", 13);
	peer_answer(server, "RESET", 'I');
	assert_hears(server, 'Q', "Q:two");
	peer_answer(server, "TWO", 'I');
	peer_hear(client, 'Z');
	peer_text(named, 'Q', "one");
	assert_hears(server, 'Q', "Q:SET TimeZone='Nowhere';");
	refuse(server);
	assert_string_equal(peer_last_words(named), "E:FATAL:invalid server parameter");
	stage_free(&stage);
}

/* ---- statements ---- */

static void use(struct peer *client)
{
	peer_put(client, 'B', "\0s\0\0\0\0\0\0\0", 9);
	peer_put(client, 'E', "\0\0\0\0\0", 5);
	peer_put(client, 'S', NULL, 0);
}

static void used(struct peer *server)
{
	peer_put(server, '2', NULL, 0);
	peer_answer(server, "SELECT 0", 'I');
}

/* The first statement makes room for the second one, and then the other way round. */
static void parse_and_close_of_the_pooler(void)
{
	struct peer *client, *server, *other;
	struct stage *stage =
	    prepared("max_prepared_statements = 1\n", &client, &server);

	peer_hear(client, 'Z');
	other = stage_login(stage, "u", NULL, NULL);
	peer_put(other, 'P', "t\0select 2\0\0\0", 13);
	peer_put(other, 'S', NULL, 0);
	assert_hears(server, 'S', "P C:SPGBOUNCER_1 S");
	peer_put(server, '1', NULL, 0);
	peer_put(server, '3', NULL, 0);
	peer_ready(server, 'I');
	assert_hears(other, 'Z', "1 Z:I");
	use(client);
	assert_hears(server, 'S', "P C:SPGBOUNCER_2 B E:: S");
	peer_put(server, '1', NULL, 0);
	peer_put(server, '3', NULL, 0);
	used(server);
	assert_hears(client, 'Z', "2 C:SELECT 0 Z:I");
	stage_free(&stage);
}

static void all_statements_are_discarded(const char *sql)
{
	struct peer *client, *server;
	struct stage *stage = prepared("session_state = forward\n", &client, &server);

	peer_hear(client, 'Z');
	peer_text(client, 'Q', sql);
	peer_hear(server, 'Q');
	peer_answer(server, sql, 'I');
	peer_hear(client, 'Z');
	assert_forgotten(stage, server);
	stage_free(&stage);
}

static void discard_all_of_a_client(void)
{
	all_statements_are_discarded("DISCARD ALL");
}

static void deallocate_all_of_a_client(void)
{
	all_statements_are_discarded("DEALLOCATE ALL");
}

/* ---- a COPY that fails ---- */

/* Only the server knows how many Syncs it has read as part of the COPY. */
static void question_after_a_failed_copy(void)
{
	struct peer *client, *server;
	struct stage *stage = prepared("", &client, &server);

	peer_hear(client, 'Z');
	peer_put(client, 'P', "\0copy t from stdin\0\0\0", 21);
	peer_put(client, 'B', "\0\0\0\0\0\0\0\0", 8);
	peer_put(client, 'E', "\0\0\0\0\0", 5);
	peer_put(client, 'S', NULL, 0);
	peer_hear(server, 'S');
	peer_put(server, '1', NULL, 0);
	peer_put(server, '2', NULL, 0);
	peer_put(server, 'G', "\0\0\0", 3);
	peer_hear(client, 'G');
	peer_put(server, 'E', "SERROR\0C57014\0Mcanceling\0", 26);
	peer_hear(server, 'C');
	peer_hear(server, 'S');
	/* the Sync had come too late for the COPY */
	for (int i = 0; i < 2; i++)
		peer_ready(server, 'I');
	peer_put(server, '3', NULL, 0);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "E:ERROR:canceling Z:I");
	peer_text(client, 'Q', "next");
	assert_hears(server, 'Q', "Q:next");
	peer_answer(server, "NEXT", 'I');
	assert_hears(client, 'Z', "C:NEXT Z:I");
	stage_free(&stage);
}

/* ---- every size ---- */

/* The test's state is the case. */
static void in_pieces(void **state)
{
	void (*run)(void) = *(void (**)(void)) * state;
	char piece[16];

	for (int size = 1; size <= PIECE_MOST; size++) {
		snprintf(piece, sizeof(piece), "%d", size);
		setenv(STAGE_PIECE, piece, 1);
		run();
	}
}

#define in_pieces_of(function)                                       \
	{                                                            \
#		function, in_pieces, NULL, NULL, (void (*[])(void)) \
		{                                                    \
			function                                     \
		}                                                    \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    in_pieces_of(clean_up_after_a_vanished_client),
	    in_pieces_of(reset_query),
	    in_pieces_of(reset_query_that_fails),
	    in_pieces_of(check_query),
	    in_pieces_of(parameters_of_the_next_client),
	    in_pieces_of(refused_startup_parameter),
	    in_pieces_of(refused_parameter),
	    in_pieces_of(parse_and_close_of_the_pooler),
	    in_pieces_of(discard_all_of_a_client),
	    in_pieces_of(deallocate_all_of_a_client),
	    in_pieces_of(question_after_a_failed_copy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
