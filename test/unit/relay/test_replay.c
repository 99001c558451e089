/*
 * A statement that the server lost: what is sent to it, and what the client sees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_hears(peer, type, expected) \
	assert_string_equal(peer_hear(peer, type), expected)
#define assert_heard(peer, expected) assert_string_equal(peer_heard(peer), expected)

static const char lost[] = "SERROR\0C26000\0Mprepared statement does not exist\0";
static const char stale[] = "SERROR\0C0A000\0Mstale\0";

static void refuse(struct peer *server, const char *fields, size_t size)
{
	peer_put(server, 'E', fields, size);
}

static void run(struct peer *client)
{
	peer_put(client, 'B', "\0s\0\0\0\0\0\0\0", 9);
	peer_put(client, 'E', "\0\0\0\0\0", 5);
}

static void complete(struct peer *server)
{
	peer_put(server, '2', NULL, 0);
	peer_text(server, 'C', "SELECT 0");
}

/* A client that has prepared statement s. */
static struct stage *prepared(struct peer **client, struct peer **server)
{
	struct stage *stage = stage_new("pool_size=1", "");

	stage_pair(stage, client, server);
	peer_put(*client, 'P', "s\0select 1\0\0\0", 13);
	peer_put(*client, 'S', NULL, 0);
	assert_hears(*server, 'S', "P S");
	peer_put(*server, '1', NULL, 0);
	peer_ready(*server, 'I');
	assert_hears(*client, 'Z', "1 Z:I");
	return stage;
}

/* The same, and the statement runs. */
static struct stage *running(struct peer **client, struct peer **server)
{
	struct stage *stage = prepared(client, server);

	run(*client);
	peer_put(*client, 'S', NULL, 0);
	assert_hears(*server, 'S', "B E:: S");
	return stage;
}

/* The tag of the pooler's own DISCARD ALL comes in two parts. */
static void statements_are_forgotten_by_a_tag_that_is_cut(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage =
	    stage_new("pool_size=1", "server_reset_query_always = 1\n");

	stage_pair(stage, &client, &server);
	peer_put(client, 'P', "s\0select 1\0\0\0", 13);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "P S");
	peer_put(server, '1', NULL, 0);
	peer_ready(server, 'I');
	assert_hears(server, 'Q', "Q:DISCARD ALL");
	peer_send(server, "C\0\0\0\x10", 5);
	stage_settle(stage);
	peer_send(server, "DISCARD ALL\0", 12);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 Z:I");
	run(client);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "P B E:: S");
	stage_free(&stage);
}

static void lost_statement_is_prepared_again(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = running(&client, &server);

	refuse(server, lost, sizeof(lost));
	assert_heard(client, "");
	assert_heard(server, "");
	peer_ready(server, 'I');
	assert_hears(server, 'S', "C:SPGBOUNCER_1 P B E:: S");
	peer_put(server, '3', NULL, 0);
	peer_put(server, '1', NULL, 0);
	complete(server);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "2 C:SELECT 0 Z:I");
	assert_int_equal(stage_pool(stage)->stats.bind_count, 1);
	assert_int_equal(stage_pool(stage)->slots[SLOT_IDLE].count, 1);
	stage_free(&stage);
}

/* The server has read the Sync as COPY data, so it is still in the transaction of the
 * COPY. */
static void nothing_is_repeated_behind_a_copy(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = running(&client, &server);

	peer_put(server, '2', NULL, 0);
	peer_put(server, 'G', "\0\0\0", 3);
	assert_hears(client, 'G', "2 G");
	peer_put(client, 'c', NULL, 0);
	run(client);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'H', "c H");
	peer_text(server, 'C', "COPY 0");
	assert_hears(server, 'S', "B E:: S");
	refuse(server, lost, sizeof(lost));
	peer_ready(server, 'I');
	assert_hears(
	    client, 'Z', "C:COPY 0 E:ERROR:prepared statement does not exist Z:I");
	assert_heard(server, "");
	/* the next cycle */
	run(client);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "C:SPGBOUNCER_1 P B E:: S");
	stage_free(&stage);
}

/* A COPY of a Query ends nothing. */
static void lost_statement_behind_a_copy_of_a_query(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = prepared(&client, &server);

	peer_text(client, 'Q', "copy t from stdin");
	peer_put(client, 'c', NULL, 0);
	run(client);
	peer_put(client, 'S', NULL, 0);
	peer_hear(server, 'H');
	peer_put(server, 'G', "\0\0\0", 3);
	peer_text(server, 'C', "COPY 0");
	peer_ready(server, 'I');
	assert_hears(server, 'S', "B E:: S");
	refuse(server, lost, sizeof(lost));
	peer_ready(server, 'I');
	assert_hears(server, 'S', "C:SPGBOUNCER_1 P B E:: S");
	stage_free(&stage);
}

/* The client's messages come in two parts, wherever they are cut. */
static void lost_statement_of_a_cut_replay(void **state)
{
	static const char replay[] = "B\0\0\0\x0d\0s\0\0\0\0\0\0\0"
				     "D\0\0\0\6P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\4";

	(void)state;
	for (size_t cut = 1; cut < sizeof(replay) - 1; cut++) {
		struct peer *client, *server;
		struct stage *stage = prepared(&client, &server);

		peer_send(client, replay, cut);
		stage_settle(stage);
		peer_send(client, replay + cut, sizeof(replay) - 1 - cut);
		assert_hears(server, 'S', "B D E:: S");
		refuse(server, lost, sizeof(lost));
		peer_ready(server, 'I');
		assert_hears(server, 'S', "C:SPGBOUNCER_1 P B D E:: S");
		peer_put(server, '3', NULL, 0);
		peer_put(server, '1', NULL, 0);
		peer_put(server, '2', NULL, 0);
		peer_put(server, 'n', NULL, 0);
		peer_text(server, 'C', "SELECT 0");
		peer_ready(server, 'I');
		assert_hears(client, 'Z', "2 n C:SELECT 0 Z:I");
		stage_free(&stage);
	}
}

static void second_failure_is_the_clients(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = running(&client, &server);

	refuse(server, stale, sizeof(stale));
	peer_ready(server, 'I');
	assert_hears(server, 'S', "C:SPGBOUNCER_1 P B E:: S");
	peer_put(server, '3', NULL, 0);
	peer_put(server, '1', NULL, 0);
	refuse(server, stale, sizeof(stale));
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "E:ERROR:stale Z:I");
	assert_heard(server, "");
	stage_free(&stage);
}

static void without_sync_ours_ends_what_failed(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = prepared(&client, &server);

	run(client);
	peer_put(client, 'H', NULL, 0);
	assert_hears(server, 'H', "B E:: H");
	refuse(server, stale, sizeof(stale));
	assert_hears(server, 'S', "S");
	/* messages that come in the meantime wait */
	peer_put(client, 'S', NULL, 0);
	assert_heard(server, "");
	peer_ready(server, 'I');
	assert_hears(server, 'S', "C:SPGBOUNCER_1 P B E:: H S");
	peer_put(server, '3', NULL, 0);
	peer_put(server, '1', NULL, 0);
	complete(server);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "2 C:SELECT 0 Z:I");
	stage_free(&stage);
}

static void client_that_leaves_meanwhile_harms_nobody(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = running(&client, &server);

	refuse(server, lost, sizeof(lost));
	assert_heard(client, "");
	peer_close(client);
	peer_last_words(server);
	stage_free(&stage);
}

static void error_behind_a_row_is_the_clients(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = prepared(&client, &server);

	run(client);
	run(client);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "B E:: B E:: S");
	complete(server);
	refuse(server, stale, sizeof(stale));
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "2 C:SELECT 0 E:ERROR:stale Z:I");
	/* but the next statement is prepared anew */
	run(client);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "C:SPGBOUNCER_1 P B E:: S");
	stage_free(&stage);
}

/* Whenever the client's next message comes, no part of the answer is lost. */
static void answer_is_whole_wherever_the_next_message_comes(void **state)
{
	static const uint8_t answer[] = "t\0\0\0\x0a\0\1\0\0\0\x17"
					"T\0\0\0\6\0\0"
					"Z\0\0\0\5I";
	size_t size = sizeof(answer) - 1;

	(void)state;
	for (size_t cut = 0; cut < size; cut++) {
		struct peer *client, *server;
		struct stage *stage = prepared(&client, &server);

		peer_put(client, 'D', "Ss", 3);
		peer_put(client, 'S', NULL, 0);
		peer_hear(server, 'S');
		peer_send(server, answer, cut);
		stage_settle(stage);
		peer_text(client, 'Q', "next");
		assert_hears(server, 'Q', "Q:next");
		peer_send(server, answer + cut, size - cut);
		peer_answer(server, "NEXT", 'I');
		assert_hears(client, 'C', "t T Z:I C:NEXT");
		assert_hears(client, 'Z', "Z:I");
		stage_free(&stage);
	}
}

/* The part of the answer that was held comes before the error. */
static void held_answer_comes_before_the_end(void **state)
{
	struct peer *client, *server;
	struct stage *stage = prepared(&client, &server);

	(void)state;
	peer_put(client, 'D', "Ss", 3);
	peer_put(client, 'S', NULL, 0);
	peer_hear(server, 'S');
	peer_put(server, 't', "\0\1\0\0\0\x17", 6);
	peer_close(server);
	assert_string_equal(peer_last_words(client), "t E:FATAL:server conn crashed?");
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(statements_are_forgotten_by_a_tag_that_is_cut),
	    cmocka_unit_test(lost_statement_is_prepared_again),
	    cmocka_unit_test(nothing_is_repeated_behind_a_copy),
	    cmocka_unit_test(lost_statement_behind_a_copy_of_a_query),
	    cmocka_unit_test(lost_statement_of_a_cut_replay),
	    cmocka_unit_test(second_failure_is_the_clients),
	    cmocka_unit_test(without_sync_ours_ends_what_failed),
	    cmocka_unit_test(client_that_leaves_meanwhile_harms_nobody),
	    cmocka_unit_test(error_behind_a_row_is_the_clients),
	    cmocka_unit_test(answer_is_whole_wherever_the_next_message_comes),
	    cmocka_unit_test(held_answer_comes_before_the_end),
	};

	return stage_run_twice(tests);
}
