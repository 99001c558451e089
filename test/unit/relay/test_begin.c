/*
 * defer_begin: what the server gets for a transaction that the client begins alone, and
 * what the client hears, message by message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_hears(peer, type, expected) \
	assert_string_equal(peer_hear(peer, type), expected)
#define assert_heard(peer, expected) assert_string_equal(peer_heard(peer), expected)

#define READ_ONLY "SERROR\0C25006\0Mread only\0"

static size_t count(struct stage *stage, enum slot_state state)
{
	return stage_pool(stage)->slots[state].count;
}

static struct stage *deferring(struct peer **client, struct peer **server)
{
	struct stage *stage = stage_new("pool_size=1", "defer_begin = 1\n");

	stage_pair(stage, client, server);
	return stage;
}

/* The client has begun, and no server knows it. */
static struct stage *begun(struct peer **client, struct peer **server)
{
	struct stage *stage = deferring(client, server);

	peer_text(*client, 'Q', "begin");
	assert_hears(*client, 'Z', "C:BEGIN Z:T");
	assert_heard(*server, "");
	assert_int_equal(count(stage, SLOT_ACTIVE), 0);
	return stage;
}

static void complete_begin(struct peer *server)
{
	peer_put(server, '1', NULL, 0);
	peer_put(server, '2', NULL, 0);
	peer_text(server, 'C', "BEGIN");
	peer_put(server, '3', NULL, 0);
}

static void refuse(struct peer *server)
{
	peer_put(server, 'E', READ_ONLY, sizeof(READ_ONLY));
}

/* Parse, if a text is given, Bind, Describe, Execute and Sync in one piece. */
static void run(struct peer *client, const char *text, bool is_described)
{
	struct buf out;

	buf_init(&out, 0);
	if (text)
		codec_put_parse(&out, "", text);
	codec_put_bind_text(&out, NULL, 0);
	if (is_described)
		codec_put_describe_portal(&out);
	codec_put_execute(&out);
	codec_put_sync(&out);
	peer_send(client, out.bytes, out.len);
	buf_done(&out);
}

static void begin_goes_with_the_first_statement(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = begun(&client, &server);

	peer_text(client, 'Q', "select 1");
	assert_hears(server, 'Q', "P B E:: C:P Q:select 1");
	complete_begin(server);
	assert_heard(client, "");
	peer_answer(server, "SELECT 1", 'T');
	assert_hears(client, 'Z', "C:SELECT 1 Z:T");
	peer_text(client, 'Q', "commit");
	assert_hears(server, 'Q', "Q:commit");
	peer_answer(server, "COMMIT", 'I');
	assert_hears(client, 'Z', "C:COMMIT Z:I");
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	assert_int_equal(stage_pool(stage)->stats.query_count, 3);
	assert_int_equal(stage_pool(stage)->stats.xact_count, 1);
	stage_free(&stage);
}

static void empty_transaction_needs_no_server(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = begun(&client, &server);

	peer_text(client, 'Q', "commit");
	assert_hears(client, 'Z', "C:COMMIT Z:I");
	peer_text(client, 'Q', "start transaction");
	assert_hears(client, 'Z', "C:START TRANSACTION Z:T");
	peer_text(client, 'Q', "abort");
	assert_hears(client, 'Z', "C:ROLLBACK Z:I");
	assert_heard(server, "");
	assert_int_equal(stage_pool(stage)->stats.xact_count, 2);
	/* PostgreSQL warns of this one */
	peer_text(client, 'Q', "commit");
	assert_hears(server, 'Q', "Q:commit");
	stage_free(&stage);
}

static void extended_messages_are_answered_alike(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = deferring(&client, &server);

	run(client, "begin", true);
	assert_hears(client, 'Z', "1 2 n C:BEGIN Z:T");
	run(client, "commit", false);
	assert_hears(client, 'Z', "1 2 C:COMMIT Z:I");
	/* the unnamed statement is there */
	run(client, "begin", false);
	assert_hears(client, 'Z', "1 2 C:BEGIN Z:T");
	run(client, NULL, false);
	assert_hears(server, 'S', "P B E:: P B E:: S");
	stage_free(&stage);
}

/* What the client can see of the BEGIN is its portal, unless it has closed that. */
static void closed_portal_of_the_begin_is_gone(void **state)
{
	static const char *const names[] = {"", "p"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct peer *client, *server;
		struct stage *stage = deferring(&client, &server);
		char close[] = {'P', names[i][0], '\0'};

		run(client, "begin", false);
		assert_hears(client, 'Z', "1 2 C:BEGIN Z:T");
		peer_put(client, 'C', close, i ? 3 : 2);
		assert_hears(client, '3', "3");
		peer_put(client, 'D', "P", 2);
		assert_hears(server, 'D', i ? "P B E:: D" : "P B E:: C:P D");
		stage_free(&stage);
	}
}

/* Nothing is gained where the client does not wait. */
static void begin_with_something_behind_is_not_deferred(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = deferring(&client, &server);
	struct buf out;

	buf_init(&out, 0);
	codec_put_query(&out, "begin");
	codec_put_query(&out, "select 1");
	peer_send(client, out.bytes, out.len);
	buf_done(&out);
	assert_heard(server, "Q:begin Q:select 1");
	stage_free(&stage);
}

static void refused_begin_is_an_error_of_the_statement(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = begun(&client, &server);

	peer_text(client, 'Q', "insert");
	assert_hears(server, 'Q', "P B E:: C:P Q:insert");
	refuse(server);
	assert_hears(client, 'Z', "E:ERROR:read only Z:E");
	assert_hears(server, 'S', "S");
	peer_ready(server, 'I');
	assert_heard(client, "");
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	/* as in a failed block */
	peer_text(client, 'Q', "insert");
	assert_string_equal(peer_hear(client, 'Z'),
	    "E:ERROR:current transaction is aborted, commands ignored until end of "
	    "transaction "
	    "block Z:E");
	peer_text(client, 'Q', "commit");
	assert_hears(client, 'Z', "C:ROLLBACK Z:I");
	assert_heard(server, "");
	stage_free(&stage);
}

/* Nothing comes behind it. */
static void server_that_ends_instead_of_a_begin_is_the_last_word(void **state)
{
	static const char fatal[] = "SFATAL\0C57P01\0Mend\0";

	(void)state;
	struct peer *client, *server;
	struct stage *stage = begun(&client, &server);

	peer_text(client, 'Q', "insert");
	assert_hears(server, 'Q', "P B E:: C:P Q:insert");
	peer_put(server, 'E', fatal, sizeof(fatal));
	assert_hears(client, 'E', "E:FATAL:end");
	stage_settle(stage);
	assert_heard(client, "");
	assert_heard(server, "");
	stage_free(&stage);
}

static struct stage *failed(struct peer **client, struct peer **server)
{
	struct stage *stage = begun(client, server);

	peer_text(*client, 'Q', "insert");
	assert_hears(*server, 'Q', "P B E:: C:P Q:insert");
	refuse(*server);
	assert_hears(*client, 'Z', "E:ERROR:read only Z:E");
	assert_hears(*server, 'S', "S");
	peer_ready(*server, 'I');
	assert_heard(*client, "");
	return stage;
}

static void parse_and_sync(struct peer *client, const char *name, const char *text)
{
	struct buf out;

	buf_init(&out, 0);
	codec_put_parse(&out, name, text);
	codec_put_sync(&out);
	peer_send(client, out.bytes, out.len);
	buf_done(&out);
}

/* PostgreSQL prepares in such a block what ends it. */
static void what_may_end_a_failed_block_goes_to_one_on_a_server(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = failed(&client, &server);

	parse_and_sync(client, "", "rollback");
	assert_hears(server, 'Q', "Q:BEGIN;SELECT pgbouncer_failed_block");
	peer_text(server, 'C', "BEGIN");
	refuse(server);
	assert_heard(client, "");
	peer_ready(server, 'E');
	assert_hears(server, 'S', "P S");
	peer_put(server, '1', NULL, 0);
	peer_ready(server, 'E');
	assert_hears(client, 'Z', "1 Z:E");
	run(client, NULL, false);
	assert_hears(server, 'S', "B E:: S");
	peer_put(server, '2', NULL, 0);
	peer_answer(server, "ROLLBACK", 'I');
	assert_hears(client, 'Z', "2 C:ROLLBACK Z:I");
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	stage_free(&stage);
}

static void other_texts_are_refused_without_a_server(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = failed(&client, &server);

	parse_and_sync(client, "", "committed");
	assert_string_equal(peer_hear(client, 'Z'),
	    "E:ERROR:current transaction is aborted, commands ignored until end of "
	    "transaction "
	    "block Z:E");
	assert_heard(server, "");
	stage_free(&stage);
}

/* By a request that is for what the client has sent before. */
static void failed_block_that_is_cancelled_is_begun_again(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = failed(&client, &server);

	peer_text(client, 'Q', "rollback and chain");
	for (int i = 0; i < 2; i++) {
		assert_hears(server, 'Q', "Q:BEGIN;SELECT pgbouncer_failed_block");
		struct buf out;
		buf_init(&out, 0);
		codec_put_error(&out, "ERROR", "57014", "cancelled", NULL, NULL);
		peer_send(server, out.bytes, out.len);
		buf_done(&out);
		peer_ready(server, 'I');
	}
	assert_hears(server, 'Q', "Q:BEGIN;SELECT pgbouncer_failed_block");
	assert_heard(client, "");
	peer_text(server, 'C', "BEGIN");
	refuse(server);
	peer_ready(server, 'E');
	assert_hears(server, 'Q', "Q:rollback and chain");
	stage_free(&stage);
}

/* Without the block the client's message could run. */
static void server_without_the_failed_block_is_not_used(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = failed(&client, &server);

	peer_text(client, 'Q', "rollback and chain");
	assert_hears(server, 'Q', "Q:BEGIN;SELECT pgbouncer_failed_block");
	refuse(server);
	peer_ready(server, 'I');
	assert_hears(client, 'E', "E:FATAL:unknown pkt");
	stage_free(&stage);
}

/* What the client has sent behind its first statement does not run outside of the
 * block. */
static void nothing_runs_behind_a_refused_begin(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = begun(&client, &server);

	run(client, "insert", false);
	run(client, "insert", false);
	peer_text(client, 'Q', "rollback");
	assert_hears(server, 'S', "P B E:: C:P P B E:: S");
	assert_heard(server, "");
	peer_put(server, '1', NULL, 0);
	peer_put(server, '2', NULL, 0);
	refuse(server);
	peer_ready(server, 'I');
	assert_string_equal(peer_hear(client, 'C'),
	    "E:ERROR:read only Z:E E:ERROR:current transaction is aborted, commands "
	    "ignored until "
	    "end "
	    "of transaction block Z:E C:ROLLBACK");
	assert_hears(client, 'Z', "Z:I");
	assert_heard(server, "");
	stage_free(&stage);
}

static void refusal_before_the_sync_skips_up_to_it(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = begun(&client, &server);

	peer_put(client, 'P', "\0insert\0\0\0", 10);
	assert_heard(server, "P B E:: C:P P");
	refuse(server);
	assert_hears(client, 'E', "E:ERROR:read only");
	assert_hears(server, 'S', "S");
	peer_put(client, 'B', "\0\0\0\0\0\0\0\0", 8);
	peer_put(client, 'E', "\0\0\0\0\0", 5);
	assert_heard(client, "");
	peer_ready(server, 'I');
	assert_heard(client, "");
	peer_put(client, 'S', NULL, 0);
	assert_hears(client, 'Z', "Z:E");
	assert_heard(server, "");
	peer_text(client, 'Q', "rollback");
	assert_hears(client, 'Z', "C:ROLLBACK Z:I");
	stage_free(&stage);
}

/* The Sync that ends the skipping is not put into the client's message. */
static void refusal_within_a_message_waits_for_its_end(void **state)
{
	(void)state;
	enum { LEN = 20000, FIRST = 18000 };
	struct peer *client, *server;
	struct stage *stage = begun(&client, &server);
	struct buf out;
	char *text = malloc(LEN);

	assert_non_null(text);
	memset(text, 'x', LEN - 1);
	text[LEN - 1] = '\0';
	buf_init(&out, 0);
	codec_put_query(&out, text);
	peer_send(client, out.bytes, FIRST);
	stage_settle(stage);
	refuse(server);
	assert_hears(client, 'E', "E:ERROR:read only");
	assert_heard(client, "");
	peer_send(client, out.bytes + FIRST, out.len - FIRST);
	assert_hears(client, 'Z', "Z:E");
	peer_hear(server, 'Q');
	assert_hears(server, 'S', "S");
	peer_ready(server, 'I');
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	buf_done(&out);
	free(text);
	stage_free(&stage);
}

static void begin_waits_for_parameters(void **state)
{
	(void)state;
	struct peer *client, *server, *other;
	struct stage *stage = deferring(&client, &server);

	other = stage_login(stage, "u", "application_name", "x");
	assert_non_null(peer_heard(other));
	peer_text(other, 'Q', "begin");
	assert_hears(other, 'Z', "C:BEGIN Z:T");
	peer_text(other, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:SET application_name='x';");
	peer_put(server, 'S', "application_name\0x", 19);
	peer_answer(server, "SET", 'I');
	assert_hears(server, 'Q', "P B E:: C:P Q:select 1");
	stage_free(&stage);
}

/* What the server tells at any time is not taken for a part of the answer. */
static void reports_are_passed_on(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = begun(&client, &server);

	peer_text(client, 'Q', "select 1");
	assert_hears(server, 'Q', "P B E:: C:P Q:select 1");
	peer_put(server, 'S', "TimeZone\0UTC", 13);
	assert_hears(client, 'S', "S");
	complete_begin(server);
	peer_answer(server, "SELECT 1", 'T');
	assert_hears(client, 'Z', "C:SELECT 1 Z:T");
	stage_free(&stage);
}

static void second_begin_is_the_servers(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = begun(&client, &server);

	peer_text(client, 'Q', "begin");
	assert_hears(server, 'Q', "P B E:: C:P Q:begin");
	complete_begin(server);
	peer_answer(server, "BEGIN", 'T');
	assert_hears(client, 'Z', "C:BEGIN Z:T");
	stage_free(&stage);
}

static void lost_server_is_replaced_before_the_begin(void **state)
{
	(void)state;
	struct peer *client, *server, *next;
	struct stage *stage = begun(&client, &server);

	peer_close(server);
	stage_settle(stage);
	peer_text(client, 'Q', "select 1");
	next = stage_ready_server(stage);
	assert_hears(next, 'Q', "P B E:: C:P Q:select 1");
	stage_free(&stage);
}

static void setting_is_read_at_each_begin(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = begun(&client, &server);

	stage_set(stage, "defer_begin", "0");
	peer_text(client, 'Q', "commit");
	assert_hears(client, 'Z', "C:COMMIT Z:I");
	peer_text(client, 'Q', "begin");
	assert_hears(server, 'Q', "Q:begin");
	stage_free(&stage);
}

static void other_modes_do_not_defer(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = stage_new("pool_mode=session", "defer_begin = 1\n");

	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "begin");
	assert_hears(server, 'Q', "Q:begin");
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(begin_goes_with_the_first_statement),
	    cmocka_unit_test(empty_transaction_needs_no_server),
	    cmocka_unit_test(extended_messages_are_answered_alike),
	    cmocka_unit_test(closed_portal_of_the_begin_is_gone),
	    cmocka_unit_test(begin_with_something_behind_is_not_deferred),
	    cmocka_unit_test(refused_begin_is_an_error_of_the_statement),
	    cmocka_unit_test(what_may_end_a_failed_block_goes_to_one_on_a_server),
	    cmocka_unit_test(other_texts_are_refused_without_a_server),
	    cmocka_unit_test(server_that_ends_instead_of_a_begin_is_the_last_word),
	    cmocka_unit_test(failed_block_that_is_cancelled_is_begun_again),
	    cmocka_unit_test(server_without_the_failed_block_is_not_used),
	    cmocka_unit_test(nothing_runs_behind_a_refused_begin),
	    cmocka_unit_test(refusal_before_the_sync_skips_up_to_it),
	    cmocka_unit_test(refusal_within_a_message_waits_for_its_end),
	    cmocka_unit_test(begin_waits_for_parameters),
	    cmocka_unit_test(reports_are_passed_on),
	    cmocka_unit_test(second_begin_is_the_servers),
	    cmocka_unit_test(lost_server_is_replaced_before_the_begin),
	    cmocka_unit_test(setting_is_read_at_each_begin),
	    cmocka_unit_test(other_modes_do_not_defer),
	};

	return stage_run_twice(tests);
}
